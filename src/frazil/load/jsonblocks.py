"""One block of JSON lines at a time: cut at line ends, and parsed into Arrow or refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.types as types

from frazil.errors import RecordTooLarge, SerializationError
from frazil.load.inputs import Bytes

BLOCK_BYTES = 4 << 20
"""Text that is parsed, and appended, at once."""
MAX_DEPTH = 500
"""Arrow's parser recurses and would run out of stack at some ten thousand levels."""
_LONG_LINE = 8192
_MANY_BRACKETS = 1000

_NO_OBJECT = re.compile(rb"^[ \t\r]*+[^ \t\r\n{]", re.MULTILINE)
_BLANK = re.compile(rb"^[ \t\r]*+$", re.MULTILINE)
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')
_CHANGED = re.compile(r"Column\(/(.*)\) changed from (\w+) to (\w+)")

Unexpected = Literal["infer", "ignore", "error"]


class BadLines(Exception):
    """Raised when some line of a block cannot be read; says why."""


class Lines(NamedTuple):
    """Whole lines of an input."""

    first: int
    """The number of the first one, from 1 on."""
    text: bytes
    read: int
    """Bytes of the input up to here."""

    @property
    def end(self) -> int:
        """The number after the last line's."""
        return self.first + self.text.count(b"\n") + (not self.text.endswith(b"\n"))

    def halves(self) -> tuple[Lines, Lines] | None:
        """None when it is one line only."""
        inner = len(self.text) - 1
        cut = self.text.find(b"\n", len(self.text) // 2, inner)
        if cut < 0:
            cut = self.text.rfind(b"\n", 0, min(len(self.text) // 2, inner))
        if cut < 0:
            return None
        left = Lines(self.first, self.text[: cut + 1], self.read)
        return left, Lines(left.end, self.text[cut + 1 :], self.read)


def blocks(source: Bytes, name: str, limit: int, *, eager: bool = False) -> Iterator[Lines]:
    """The input in blocks of whole lines; `eager` gives lines as soon as they are there, however few."""
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
    """A block as one batch. Columns of `schema` get its types, others what `unexpected` says."""
    count = _check(text)
    wanted = schema if schema is not None and len(schema) else None
    stand_in = pa.schema([f.with_type(_stand_in(f.type)) for f in wanted]) if wanted else None
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(explicit_schema=stand_in, unexpected_field_behavior=unexpected),
        )
        if wanted and not wanted.equals(stand_in):
            table = _cast(table, wanted)
    except pa.ArrowNotImplementedError as error:
        raise SerializationError(f"{error}. Load such columns from Parquet or Arrow files.") from error
    except pa.ArrowInvalid as error:
        raise BadLines(_reason(str(error))) from error
    if table.num_rows != count:
        raise BadLines("it is not one JSON object")
    return table.combine_chunks().to_batches()[0] if table.num_rows else _nothing(table.schema)


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _check(text: bytes) -> int:
    """The number of objects, which Arrow must find too. Refuses what its parser would take, or die of."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise BadLines(f"it is not UTF-8 ({error.reason})") from None
    for line in _long_lines(text):
        _check_depth(line)
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    if text.startswith(b"{") + text.count(b"\n{") == count:
        return count
    if found := _NO_OBJECT.search(text):
        array = found.group().endswith(b"[")
        raise BadLines("it is an array, not one JSON object" if array else "it is not a JSON object")
    return count - sum(1 for found in _BLANK.finditer(text) if found.start() < len(text))


def _long_lines(text: bytes) -> Iterator[bytes]:
    """Every line of at least `_LONG_LINE` bytes (and some shorter ones): half of it holds no line end."""
    start, step = 0, _LONG_LINE // 2
    while start + step <= len(text):
        if text.find(b"\n", start, start + step) >= 0:
            start += step
            continue
        end = text.find(b"\n", start)
        end = end if end >= 0 else len(text)
        yield text[text.rfind(b"\n", 0, start) + 1 : end]
        start = end


def _check_depth(line: bytes) -> None:
    if line.count(b"[") + line.count(b"{") < _MANY_BRACKETS:
        return
    depth = 0
    for token in _BRACKETS.finditer(line):
        sign = token.group()
        depth += (sign in (b"[", b"{")) - (sign in (b"]", b"}"))
        if depth > MAX_DEPTH:
            raise BadLines(f"it is nested more than {MAX_DEPTH} levels deep")


def _stand_in(kind: pa.DataType) -> pa.DataType:
    """A type that JSON can be read as, and cast from."""
    if types.is_date(kind):
        return pa.string()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_duration(kind):
        return pa.int64()
    if types.is_struct(kind):
        return pa.struct([f.with_type(_stand_in(f.type)) for f in kind.fields])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stand_in(kind.value_type)))
    return kind


def _cast(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    for index, field in enumerate(table.schema):
        at = wanted.get_field_index(field.name)
        if at >= 0 and not field.type.equals(wanted.field(at).type) and _has_stand_in(wanted.field(at).type):
            table = table.set_column(index, wanted.field(at), table.column(index).cast(wanted.field(at).type))
    return table


def _has_stand_in(kind: pa.DataType) -> bool:
    return not _stand_in(kind).equals(kind)


def _reason(message: str) -> str:
    text = re.sub(r" in row \d+$", "", message.removeprefix("JSON parse error: ").strip()).rstrip(".")
    if changed := _CHANGED.search(text):
        path, wanted, found = changed.groups()
        return f"column {path.replace('/', '.')!r} should be {wanted}, but is {found} here"
    if text == "unexpected field":
        return "it has a column that the schema does not have"
    return text[:1].lower() + text[1:]
