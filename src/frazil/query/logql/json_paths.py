"""Reads the paths of `| json label="path"`, such as `user.tags[0]["first name"]`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(
    r'(?P<field>[A-Za-z_][A-Za-z0-9_]*)|\["(?P<key>[^"\]]*)"?\]|\[(?P<index>\d+)\]|(?P<dot>\.)|(?P<blank>\s+)'
)


class PathFault(ValueError):
    """Raised when a path cannot be read."""


@lru_cache(maxsize=1024)
def path_of(text: str) -> Path:
    """Returns the keys and indexes of the path."""
    path: list[str | int] = []
    at, dotted = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _fault(text, text[at])
        at = token.end()
        if token["blank"]:
            continue
        if token["dot"]:
            if dotted or not path:
                raise _fault(text, "DOT")
            dotted = True
        elif token["field"]:
            if path and not dotted:
                raise _fault(text, "FIELD")
            path.append(token["field"])
            dotted = False
        elif dotted:
            raise _fault(text, "LSB")
        else:
            path.append(int(token["index"]) if token["index"] else token["key"])
    if not path:
        raise PathFault(f"cannot parse expression [{text}]: syntax error: unexpected $end, expecting LSB or FIELD")
    if dotted:
        raise PathFault(f"cannot parse expression [{text}]: syntax error: unexpected $end, expecting FIELD")
    return tuple(path)


def _fault(text: str, token: str) -> PathFault:
    return PathFault(f"cannot parse expression [{text}]: syntax error: unexpected {token}")
