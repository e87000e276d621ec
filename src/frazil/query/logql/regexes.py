"""Runs regular expressions of RE2 over arrays, and says in Go's words what is wrong with one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.ops.short_texts import remember_short

_EMPTY = pa.array([""])

_GO_REASONS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class RegexFault(ValueError):
    """Raised when an expression is none of RE2; its text is that of Go."""


@remember_short(4096)
def check(pattern: str) -> str:
    """Returns the pattern, else raises `RegexFault`."""
    try:
        pc.match_substring_regex(_EMPTY, pattern)
    except pa.ArrowInvalid as wrong:
        raise RegexFault(_go_text(str(wrong), pattern)) from None
    return pattern


def _go_text(message: str, pattern: str) -> str:
    reason = message.removeprefix("Invalid regular expression: ")
    for known, words in _GO_REASONS.items():
        if reason.startswith(known):
            argument = reason.removeprefix(known).removeprefix(": ")
            if words == "trailing backslash at end of expression":
                argument = ""
            elif words.startswith(("missing closing", "unexpected )")):
                argument = pattern
            return f"error parsing regexp: {words}: `{argument}`"
    kind, _, argument = reason.partition(": ")
    return f"error parsing regexp: {kind}: `{argument}`"


def anchored(pattern: str, *, newlines: bool = False) -> str:
    """Returns a pattern that matches whole texts only; with `newlines` a dot stands for a newline too."""
    return f"^(?s:{pattern})$" if newlines else f"^(?:{pattern})$"


def matches(texts: pa.Array, pattern: str) -> pa.Array:
    """Returns for each text whether the pattern is somewhere in it."""
    return pc.match_substring_regex(texts, pattern)


@remember_short(4096)
def matches_text(text: str, pattern: str) -> bool:
    return bool(pc.match_substring_regex(pa.array([text]), pattern)[0].as_py())


@dataclass(frozen=True)
class Groups:
    """Is a pattern whose groups are named `g1`, `g2` and so on, as Arrow needs them, and what they were called."""

    pattern: str
    names: tuple[str, ...]
    """Empty for groups without a name."""

    def extract(self, texts: pa.Array) -> pa.StructArray:
        """Returns the groups of the first match in each text; null where there is none."""
        return pc.extract_regex(texts, self.pattern)


@remember_short(1024)
def groups_of(pattern: str) -> Groups:
    """Names the groups of a valid pattern."""
    parts: list[str] = []
    names: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        assert token is not None
        text = token[0]
        if token["named"] is not None or text == "(":
            names.append(token["named"] or "")
            text = f"(?P<g{len(names)}>"
        parts.append(text)
        at = token.end()
    return Groups("".join(parts), tuple(names))


_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)"
    r"|\\."
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<(?P<named>\w+)>"
    r"|\(\?"
    r"|.",
    re.DOTALL,
)
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<name>\w+)|\{(?P<braced>\w+)\})", re.ASCII)


def replacement_parts(template: str, names: tuple[str, ...]) -> list[str | int]:
    """Returns literal texts and numbers of groups that make up a replacement such as `$1-${name}`."""
    parts: list[str | int] = []
    at = 0
    for reference in _REFERENCE.finditer(template):
        parts.append(template[at : reference.start()])
        at = reference.end()
        if reference["dollar"]:
            parts.append("$")
            continue
        name = reference["name"] or reference["braced"]
        if name.isdecimal():
            number = int(name)
            if number <= len(names):
                parts.append(number)
        elif name in names:
            parts.append(names.index(name) + 1)
    parts.append(template[at:])
    return [part for part in parts if part != ""]
