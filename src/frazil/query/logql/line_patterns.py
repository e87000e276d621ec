"""Reads patterns such as `<method> /api/<_>`, which name or skip pieces of a line between literal texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.ops.short_texts import remember_short

_CAPTURE = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")
UNNAMED = "_"


class PatternFault(ValueError):
    """Raised when a pattern cannot be used."""


@dataclass(frozen=True)
class Capture:
    name: str


@dataclass(frozen=True)
class LinePattern:
    parts: tuple[str | Capture, ...]

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.parts if isinstance(part, Capture) and part.name != UNNAMED]

    @property
    def longest_literal(self) -> str:
        return max((part for part in self.parts if isinstance(part, str)), key=len, default="")

    def fits(self, line: str) -> bool:
        """Returns whether the line has the literals in order, with something at each capture, up to its end.

        A literal at the beginning may be anywhere in the line, as in Loki.
        """
        if not self.parts:
            return not line
        at = 0
        for number, part in enumerate(self.parts):
            if isinstance(part, Capture):
                continue
            found = line.find(part, at)
            if found < 0 or (number and found == at):
                return False
            at = found + len(part)
        return at < len(line) if isinstance(self.parts[-1], Capture) else at == len(line)

    def values(self, line: str) -> list[str | None]:
        """Returns what the named captures have of the line; None for those that were not reached."""
        found: list[str | None] = []
        missing = len(self.names)
        parts = self.parts
        at = 0
        if isinstance(parts[0], str):
            if not line.startswith(parts[0]):
                return [None] * missing
            at, parts = len(parts[0]), parts[1:]
        if not line:
            return [None] * missing
        for number in range(0, len(parts), 2):
            name = parts[number].name  # type: ignore[union-attr]
            literal = parts[number + 1] if number + 1 < len(parts) else None
            end = line.find(literal, at) if isinstance(literal, str) else -1
            value = line[at:end] if end >= 0 else line[at:]
            if name != UNNAMED:
                found.append(value)
            if end < 0 or not isinstance(literal, str):
                break
            at = end + len(literal)
        return found + [None] * (missing - len(found))


def _parsed(text: str) -> LinePattern:
    parts: list[str | Capture] = []
    at = 0
    for capture in _CAPTURE.finditer(text):
        if capture.start() > at:
            parts.append(text[at : capture.start()])
        elif parts and isinstance(parts[-1], Capture):
            raise PatternFault(f"found consecutive capture '<{parts[-1].name}>{capture[0]}': invalid expression")
        parts.append(Capture(capture[1]))
        at = capture.end()
    if at < len(text):
        parts.append(text[at:])
    return LinePattern(tuple(parts))


@remember_short(1024)
def parser_pattern(text: str) -> LinePattern:
    """Reads a pattern that gives labels."""
    pattern = _parsed(text)
    names = pattern.names
    if not names:
        raise PatternFault("at least one capture is required")
    for number, name in enumerate(names):
        if name in names[:number]:
            raise PatternFault(f"duplicate capture name ({name}): invalid expression")
    return pattern


@remember_short(1024)
def filter_pattern(text: str) -> LinePattern:
    """Reads a pattern that only filters lines."""
    pattern = _parsed(text)
    if names := pattern.names:
        raise PatternFault(f"named captures are not allowed: found '<{names[0]}>'")
    return pattern
