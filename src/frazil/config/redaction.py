"""What must not be shown: secrets, and passwords inside addresses."""

from __future__ import annotations

import re

from frazil.config.setting_tree import KeyPath, Setting, SettingGroup, setting_tree

HIDDEN = "********"

# The names by which obstore, PyIceberg and Spark know their secrets; an id of a key is none.
_NAME = re.compile(
    r"secret|token|passw|passphrase|credential|authorization|connection[._-]?string|sas(?!l)|service.account"
    r"|key(?!(?:.*[._-])?id$)",
    re.IGNORECASE,
)
# `scheme://user:password@host`. Up to the last `@`, for people forget to escape one in a password.
_USER = re.compile(r"(://[^\s/?#:@]*:)\S+@")
# `?password=…`, `;AccountKey=…`, `-Djavax.net.ssl.keyStorePassword=…`
_PARAMETER = re.compile(
    r"((?:passw(?:or)?d|pwd|token|secret|credential|account_?key|signature|\bsig)\s*=\s*)[^\s&;,]+", re.IGNORECASE
)


def is_secret(path: KeyPath) -> bool:
    """Whether the value of a key is a secret: by its type, or by its free name."""
    node: Setting | SettingGroup | None = setting_tree()
    free = False
    for key in path:
        if not isinstance(node, SettingGroup):
            return False
        free = node.secrets and _NAME.search(key) is not None
        node = node.child(key)
    return free or (isinstance(node, Setting) and node.secret)


def masked(text: str) -> str:
    """A text without the passwords in it."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))
