"""Hides what must not be shown: secrets, and passwords inside addresses."""

from __future__ import annotations

import re

from frazil.config.setting_tree import KeyPath, Setting, SettingGroup, setting_tree

HIDDEN = "********"

# These are the names that obstore, PyIceberg and Spark give their secrets. The id of a key is not secret.
_NAME = re.compile(
    r"secret|token|passw|passphrase|credential|authorization|connection[._-]?string|sas(?!l)|service.account"
    r"|key(?!(?:.*[._-])?id$)",
    re.IGNORECASE,
)
# This is `scheme://user:password@host`, up to the last `@`, because people forget to escape one in a password.
_USER = re.compile(r"(://[^\s/?#:@]*:)\S+@")
# These are `?password=…`, `;AccountKey=…` and `-Djavax.net.ssl.keyStorePassword=…`.
_PARAMETER = re.compile(
    r"((?:passw(?:or)?d|pwd|token|secret|credential|account_?key|signature|\bsig)\s*=\s*)[^\s&;,]+", re.IGNORECASE
)


def is_secret(path: KeyPath) -> bool:
    """Returns whether the value of a key is a secret, by its type or by its free name."""
    node: Setting | SettingGroup | None = setting_tree()
    free = False
    for key in path:
        if not isinstance(node, SettingGroup):
            return False
        free = node.secrets and _NAME.search(key) is not None
        node = node.child(key)
    return free or (isinstance(node, Setting) and node.secret)


def masked(text: str) -> str:
    """Returns a text with the passwords in it masked."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))
