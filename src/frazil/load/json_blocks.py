"""Cuts JSON lines into blocks, and parses a block into Arrow or refuses it with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from frazil.errors import RecordTooLarge
from frazil.formats.json import parsing
from frazil.formats.json.parsing import MAX_DEPTH, BadJson, Unexpected, too_deep
from frazil.load.inputs import ByteSource

BLOCK_BYTES = 4 << 20
"""The bytes of text that are parsed, and appended, at once."""
_LONG_LINE = 8192

_NO_OBJECT = re.compile(rb"^[ \t\r]*+[^ \t\r\n{]", re.MULTILINE)
_BLANK = re.compile(rb"^[ \t\r]*+$", re.MULTILINE)
_NO_END = re.compile(rb"[^ \t\r\n}][ \t\r]*+$", re.MULTILINE)


class Lines(NamedTuple):
    """Some whole lines of an input."""

    first: int
    """The number of the first line, counted from 1."""
    text: bytes
    read: int
    """The bytes of the input up to here."""

    @property
    def end(self) -> int:
        """The number after that of the last line."""
        return self.first + self.text.count(b"\n") + (not self.text.endswith(b"\n"))

    def halves(self) -> tuple[Lines, Lines] | None:
        """Splits the lines in two; returns None for a single line."""
        inner = len(self.text) - 1
        cut = self.text.find(b"\n", len(self.text) // 2, inner)
        if cut < 0:
            cut = self.text.rfind(b"\n", 0, min(len(self.text) // 2, inner))
        if cut < 0:
            return None
        left = Lines(self.first, self.text[: cut + 1], self.read)
        return left, Lines(left.end, self.text[cut + 1 :], self.read)


def blocks(source: ByteSource, name: str, limit: int, *, eager: bool = False) -> Iterator[Lines]:
    """Yields the input in blocks of whole lines. With `eager`, lines are yielded as soon as they arrive, however
    few."""
    first, parts, size, cut = 1, [source.read().removeprefix(b"\xef\xbb\xbf")], 0, 0
    while chunk := parts[-1]:
        if found := chunk.rfind(b"\n") + 1:
            cut = size + found
        size += len(chunk)
        if cut and (size >= BLOCK_BYTES or eager):
            text = b"".join(parts)
            lines = Lines(first, text[:cut], source.tell())
            yield lines
            first, parts, size, cut = lines.end, [text[cut:]], size - cut, 0
        elif size - cut > limit:
            line = first + b"".join(parts)[:cut].count(b"\n")
            raise RecordTooLarge(f"{name}, line {line}: longer than {limit:,} bytes, which no append can hold.")
        parts.append(source.read())
    if rest := b"".join(parts):
        yield Lines(first, rest, source.tell())


def parse(text: bytes, schema: pa.Schema | None, unexpected: Unexpected) -> pa.RecordBatch:
    """Parses a block as one batch. Columns of `schema` get its types; `unexpected` says what happens to others."""
    count = _check(text)
    table = parsing.parse(text, schema, unexpected)
    if table.num_rows != count or (text.count(b"}\n") + text.endswith(b"}") != count and _NO_END.search(text)):
        # If there are as many objects as lines, and all lines go from `{` to `}`, no object can have begun in one
        # line and ended in another: between them comes a line end and a `{`.
        raise BadJson("it is not one JSON object")
    return table.combine_chunks().to_batches()[0] if table.num_rows else _nothing(table.schema)


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _check(text: bytes) -> int:
    """Returns the number of objects, which Arrow must find too. Refuses what Arrow's parser would wrongly accept, or
    crash on."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise BadJson(f"it is not UTF-8 ({error.reason})") from None
    if any(too_deep(line) for line in _long_lines(text)):
        raise BadJson(f"it is nested more than {MAX_DEPTH} levels deep")
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    if text.startswith(b"{") + text.count(b"\n{") == count:
        return count
    if found := _NO_OBJECT.search(text):
        array = found.group().endswith(b"[")
        raise BadJson("it is an array, not one JSON object" if array else "it is not a JSON object")
    return count - sum(1 for found in _BLANK.finditer(text) if found.start() < len(text))


def _long_lines(text: bytes) -> Iterator[bytes]:
    """Yields every line of at least `_LONG_LINE` bytes, and some shorter ones. Half of such a line contains no line
    end."""
    start, step = 0, _LONG_LINE // 2
    while start + step <= len(text):
        if text.find(b"\n", start, start + step) >= 0:
            start += step
            continue
        end = text.find(b"\n", start)
        end = end if end >= 0 else len(text)
        yield text[text.rfind(b"\n", 0, start) + 1 : end]
        start = end
