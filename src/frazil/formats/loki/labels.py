"""Parses and writes the labels of a stream as Loki's clients write them: `{app="shop", pod="a\\"b"}`.

Values are quoted as in Go: with `"` or `'` and escapes, or with backquotes and no escapes. Names may be quoted too,
which Prometheus does for names that are not identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from frazil.errors import RequestError
from frazil.formats.telemetry.log_levels import level_of_labels

SERVICE_LABELS = (
    "service_name",
    "service",
    "app",
    "application",
    "app_name",
    "name",
    "app_kubernetes_io_name",
    "container",
    "container_name",
    "k8s_container_name",
    "component",
    "workload",
    "job",
    "k8s_job_name",
)
"""The labels in which Loki looks for the name of a service, in this order."""

LEVEL_LABELS = (
    *("level", "LEVEL", "Level", "severity", "SEVERITY", "Severity", "lvl", "LVL", "Lvl"),
    "detected_level",
)
"""The labels in which Loki looks for a level, in this order. The last one is where it stores the level that it
detects."""

_REMEMBERED = 4096
"""The number of parsed texts that are cached: streams are few, and come again with every request."""
_LONGEST = 4096
"""The longest text that is cached, in characters, so that the cache has a known size."""

_SPACE = re.compile(r"[ \t\r\n]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(
    r'"(?P<double>[^"\\\n]*(?:\\.[^"\\\n]*)*)"' r"|'(?P<single>[^'\\\n]*(?:\\.[^'\\\n]*)*)'" r"|`(?P<back>[^`]*)`"
)
_ESCAPE = re.compile(
    rb"\\(?:x(?P<hex>[0-9A-Fa-f]{2})|(?P<octal>[0-3][0-7]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<one>.))"
)
_SINGLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_LAST_CHARACTER = 0x10FFFF
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""It replaces halves of surrogate pairs, as in Go."""


class LabelsError(RequestError):
    """Raised when labels cannot be parsed; the message says at which character."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(f"{problem} at character {at + 1} of the labels")


class StreamLabels(NamedTuple):
    pairs: tuple[tuple[str, str], ...]
    """The labels, sorted by name."""
    service: str | None
    level: str | None
    detected_level: str | None
    """The level that Loki detects from the labels."""


def parse(text: str) -> StreamLabels:
    """Parses labels. Raises `LabelsError`."""
    return _remembered(text) if len(text) <= _LONGEST else _parse(text)


def labels_text(labels: Mapping[str, str]) -> str:
    """Returns the text of the labels."""
    return "{" + ", ".join(f"{_written_name(name)}={_quoted(labels[name])}" for name in sorted(labels)) + "}"


def _written_name(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def _parse(text: str) -> StreamLabels:
    pairs = _Parser(text).pairs()
    present = {name: value for name, value in pairs.items() if value}
    service = next((present[name] for name in SERVICE_LABELS if name in present), None)
    level = next((present[name] for name in LEVEL_LABELS if name in present), None)
    return StreamLabels(tuple(sorted(pairs.items())), service, level, level_of_labels(present))


_remembered = lru_cache(_REMEMBERED)(_parse)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._move(0)

    def pairs(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if not self._text.strip():
            # As in Loki, an empty text stands for no labels.
            return found
        self._expect("{")
        while not self._skip("}"):
            start = self._at
            name = self._name()
            if name in found:
                raise LabelsError(f"label {name[:80]!r} comes twice,", start)
            self._expect("=")
            found[name] = self._string("a value in quotes")
            if not self._skip(","):
                self._expect("}", "',' or '}'")
                break
        if self._at < len(self._text):
            raise LabelsError(f"nothing is expected after '}}', not {self._next()},", self._at)
        return found

    def _name(self) -> str:
        if found := _IDENTIFIER.match(self._text, self._at):
            self._move(found.end())
            return found.group()
        start = self._at
        if name := self._string("the name of a label"):
            return name
        raise LabelsError("a label has no name", start)

    def _string(self, expected: str) -> str:
        found = _QUOTED.match(self._text, self._at)
        if not found:
            raise LabelsError(f"{expected} is expected, not {self._next()},", self._at)
        start = self._at
        self._move(found.end())
        match found.lastgroup:
            case "back":
                return found["back"]
            case "single":
                return _unescaped(found["single"], "'", start)
        return _unescaped(found["double"], '"', start)

    def _expect(self, sign: str, expected: str = "") -> None:
        if not self._skip(sign):
            raise LabelsError(f"{expected or repr(sign)} is expected, not {self._next()},", self._at)

    def _skip(self, sign: str) -> bool:
        """Skips the sign if it comes next; returns whether it did."""
        if not self._text.startswith(sign, self._at):
            return False
        self._move(self._at + 1)
        return True

    def _move(self, place: int) -> None:
        """Moves to the first character from `place` on that is not space."""
        found = _SPACE.match(self._text, place)
        self._at = found.end() if found else place

    def _next(self) -> str:
        return repr(self._text[self._at]) if self._at < len(self._text) else "the end"


def _unescaped(text: str, quote: str, start: int) -> str:
    """Replaces the escapes. `start` is where the quoted text begins, for error messages."""
    if "\\" not in text:
        return text

    def character(found: re.Match[bytes]) -> bytes:
        match found.lastgroup:
            case "hex":
                return bytes([int(found["hex"], 16)])
            case "octal":
                return bytes([int(found["octal"], 8)])
            case "u" | "U":
                return _character(int(found[found.lastgroup], 16), start)
        letter = found["one"].decode("latin-1")
        if letter == quote:
            return quote.encode()
        if letter not in _SINGLE:
            raise LabelsError(f"an escape that is none, \\{letter}, in the quotes", start)
        return bytes([_SINGLE[letter]])

    # Escapes may stand for single bytes, several of which make a character.
    return _ESCAPE.sub(character, text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _character(code: int, start: int) -> bytes:
    if code > _LAST_CHARACTER:
        raise LabelsError(f"an escape of {code:X}, which is no character, in the quotes", start)
    return (_UNKNOWN if 0xD800 <= code < 0xE000 else chr(code)).encode()
