"""Parses many JSON objects at once with Arrow: all of them, or none with the reason."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from frazil.errors import SerializationError
from frazil.formats.json.logical_types import from_physical, physical_type

MAX_DEPTH = 500
"""The deepest nesting that is parsed. Arrow's parser recurses, and would run out of stack at some ten thousand
levels."""

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')
_NO_SIGNS = bytes(set(range(256)) - set(b'[]{}"\\'))
_CHANGED = re.compile(r"Column\(/(.*)\) changed from (\w+) to (\w+)")

Unexpected = Literal["infer", "ignore", "error"]


class BadJson(Exception):
    """Raised when a text cannot be parsed; the message says why."""


def parse(text: bytes | pa.Buffer, wanted: pa.Schema | None, unexpected: Unexpected) -> pa.Table:
    """Returns the objects as rows. Columns of `wanted` get its types; `unexpected` says what happens to others.

    This cannot tell where one text ends and the next begins: the caller knows how many there must be. The text must
    be UTF-8, and not nested deeper than `MAX_DEPTH`.
    """
    wanted = wanted if wanted is not None and len(wanted) else None
    explicit = pa.schema([f.with_type(physical_type(f.type)) for f in wanted]) if wanted else None
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(explicit_schema=explicit, unexpected_field_behavior=unexpected),
        )
        return _restored(table, wanted or table.schema)
    except pa.ArrowNotImplementedError as error:
        raise SerializationError(f"{error}. Load such columns from Parquet or Arrow files.") from error
    except pa.ArrowInvalid as error:
        raise BadJson(_reason(str(error))) from error
    except UnicodeDecodeError:
        raise BadJson("it is not UTF-8") from None


def _restored(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    columns, fields = [], []
    for field, column in zip(table.schema, table.combine_chunks().columns, strict=True):
        place = wanted.get_field_index(field.name)
        field = wanted.field(place) if place >= 0 else field
        array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        restored = from_physical(array, field.type, spare=True)
        columns.append(restored)
        fields.append(field.with_type(restored.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)) if fields else table


def too_deep(text: bytes) -> bool:
    """Returns whether brackets are nested deeper than `MAX_DEPTH`."""
    signs = text.translate(None, _NO_SIGNS)
    if signs.count(b"[") + signs.count(b"{") <= MAX_DEPTH:
        return False
    signs = signs.replace(b'""', b"")
    if b'"' in signs or b"\\" in signs:
        # Some brackets may be inside strings, and some quotes escaped.
        signs = b"".join(token for token in _BRACKETS.findall(text) if token[:1] != b'"')
    brackets = np.frombuffer(signs, np.uint8)
    opened = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return bool(opened.cumsum().max(initial=0) > MAX_DEPTH)


def _reason(message: str) -> str:
    text = re.sub(r" in row \d+$", "", message.removeprefix("JSON parse error: ").strip()).rstrip(".")
    if changed := _CHANGED.search(text):
        path, wanted, found = changed.groups()
        return f"column {path.replace('/', '.')!r} should be {wanted}, but is {found} here"
    if text == "unexpected field":
        return "it has a column that the schema does not have"
    return text[:1].lower() + text[1:]
