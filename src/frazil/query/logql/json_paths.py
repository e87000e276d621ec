"""Reads where `json` and `logfmt` find a label: paths such as `user.tags[0]["first name"]`, and keys."""

from __future__ import annotations

import re
from typing import TypeAlias

from frazil.ops.short_texts import remember_short

Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(
    r'(?P<FIELD>[A-Za-z_][A-Za-z0-9_]*)|\["(?P<key>[^"\]]*)"?\]|\[(?P<index>\d+)\]|(?P<DOT>\.)|(?P<blank>\s+)|(?P<LSB>\[)'
)
_LOGFMT_KEY = re.compile(r'\s*(?:(?P<key>[A-Za-z_][A-Za-z0-9_]*)|"(?P<quoted>[^"]*)")\s*')


class PathFault(ValueError):
    """Raised when a path cannot be read."""


@remember_short(1024)
def path_of(text: str) -> Path:
    """Returns the keys and indexes of the path."""
    path: list[str | int] = []
    at, dotted = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _fault(text, f"unexpected char {text[at]}")
        at = token.end()
        kind = token.lastgroup
        if kind == "blank":
            continue
        if kind == "LSB":
            raise _fault(text, _bracket_fault(text[at:]))
        if kind == "DOT":
            if dotted or not path:
                raise _fault(text, f"syntax error: unexpected DOT, expecting {'FIELD' if dotted else 'LSB or FIELD'}")
            dotted = True
        elif kind == "FIELD":
            if path and not dotted:
                raise _fault(text, "syntax error: unexpected FIELD")
            path.append(token["FIELD"])
            dotted = False
        elif dotted:
            raise _fault(text, "syntax error: unexpected LSB, expecting FIELD")
        else:
            path.append(int(token["index"]) if kind == "index" else token["key"])
    if dotted or not path:
        expected = "FIELD" if dotted else "LSB or FIELD"
        raise _fault(text, f"syntax error: unexpected $end, expecting {expected}")
    return tuple(path)


def _bracket_fault(rest: str) -> str:
    """Says what is wrong behind a bracket."""
    if rest.startswith('"'):
        return "syntax error: unexpected $end, expecting RSB"
    found = "FIELD" if re.match("[A-Za-z_]", rest) else "$end"
    return f"syntax error: unexpected {found}, expecting STRING or INDEX"


@remember_short(1024)
def logfmt_key(text: str) -> str:
    """Returns the key of `| logfmt label="key"`."""
    found = _LOGFMT_KEY.match(text)
    if found is None:
        raise _fault(text, "syntax error: unexpected $end, expecting STRING or KEY")
    if found.end() < len(text):
        rest = text[found.end()]
        known = rest == '"' or re.match("[A-Za-z_]", rest)
        raise _fault(text, "syntax error: unexpected KEY" if known else f"unexpected char {rest}")
    return found["quoted"] if found["key"] is None else found["key"]


def _fault(text: str, reason: str) -> PathFault:
    return PathFault(f"cannot parse expression [{text}]: {reason}")
