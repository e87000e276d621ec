"""Writes rows as JSON text, column by column.

Binary values are base64, decimals text, dates and times ISO 8601 (UTC ones end in `Z`). JSON has no NaN and no
infinities, which DuckDB's dates and times have too: they are the texts "NaN", "Infinity" and "-Infinity". Maps with
text keys are objects, others lists of `{"key": …, "value": …}`. Integers are numbers however large: a reader that
takes them for doubles loses digits beyond 2^53.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from frazil.config.sections.section import MIB
from frazil.log.schema.row_sizes import first_within

_ROWS = 8192
_BYTES = 64 * MIB
"""This is how much is turned into text at a time. The text is several times as large, and must stay below 2 GiB."""
_FEW = 100
"""With fewer values, a Python loop is faster than starting the kernels."""
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_OTHER_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_NOT_FINITE = {"nan": '"NaN"', "-nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def rows_to_json(table: pa.Table) -> bytes:
    """Returns a JSON list with one object per row."""
    names = table.column_names
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"an object cannot have two columns of one name: {', '.join(repeated)}")
    parts = [_joined(_objects(names, batch.columns, len(batch))) for batch in _pieces(table)]
    return b"[" + b",".join(parts) + b"]"


def row_texts(rows: pa.RecordBatch) -> pa.Array:
    """Returns each row as the text of a JSON object without its null columns. The first column must have no nulls."""
    parts: list[Any] = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count < len(column):
            named = _concat(f"{',' if parts else '{'}{json.dumps(name, ensure_ascii=False)}:", _values(column))
            parts.append(pc.fill_null(named, ""))
    return _concat(*parts, "}") if parts else pa.array([], pa.string())


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=_ROWS):
        while len(batch):
            count = max(1, first_within(batch, _BYTES))
            yield batch.slice(0, count)
            batch = batch.slice(count)


def _joined(texts: pa.Array) -> bytes:
    if len(texts) == 1:
        return bytes(texts[0].as_buffer())
    everything = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return bytes(pc.binary_join(everything, ",")[0].as_buffer())


def _objects(names: list[str], columns: list[pa.Array], rows: int) -> pa.Array:
    parts: list[Any] = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [f"{',' if i else '{'}{json.dumps(name, ensure_ascii=False)}:", _text(column)]
    return _concat(*parts, "}") if parts else pa.repeat("{}", rows)


def _concat(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _quoted(plain: pa.Array) -> pa.Array:
    return _concat('"', plain, '"')


def _text(array: pa.Array) -> pa.Array:
    """Returns each value as JSON text, and nulls as `null`."""
    if array.null_count == len(array):
        return pa.repeat("null", len(array))
    text = _values(array)
    return pc.fill_null(text, "null") if text.null_count else text


def _values(array: pa.Array) -> pa.Array:
    """Returns each value as JSON text; nulls stay null."""
    return _WRITERS.get(array.type.id, _others)(array)


def _integers(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _booleans(array: pa.Array) -> pa.Array:
    return pc.if_else(array, "true", "false")


def _quoted_casts(array: pa.Array) -> pa.Array:
    return _quoted(array.cast(pa.string()))


def _others(array: pa.Array) -> pa.Array:
    return _quoted(_each(array, str))


def _each(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in array.to_pylist()], pa.string())


def _extensions(array: pa.Array) -> pa.Array:
    return _uuids(array.storage) if isinstance(array.type, pa.UuidType) else _values(array.storage)


def _floats(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return text
    for written, meant in _NOT_FINITE.items():
        text = pc.if_else(pc.equal(text, written), meant, text)
    return text


def _strings(array: pa.Array) -> pa.Array:
    if len(array) < _FEW:
        return _each(array, lambda value: json.dumps(value, ensure_ascii=False))
    array = text = array.cast(pa.string())
    for character, escaped in _ESCAPES:
        text = pc.replace_substring(text, character, escaped)
    text = _quoted(text)
    odd = pc.fill_null(pc.match_substring_regex(array, _OTHER_CONTROLS), False)
    if not pc.any(odd).as_py():
        return text
    spelt = [json.dumps(value, ensure_ascii=False) for value in array.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(spelt, pa.string()))


def _base64(array: pa.Array) -> pa.Array:
    if len(array) < _FEW:
        return _each(array, lambda value: f'"{base64.b64encode(value).decode()}"')
    return _quoted(_encoded(array, "base64"))


def _encoded(array: pa.Array, encoding: Any) -> pa.Array:
    return pl.Series(array.cast(pa.binary())).bin.encode(encoding).to_arrow().cast(pa.string())


def _uuids(storage: pa.Array) -> pa.Array:
    digits = _encoded(storage, "hex")
    borders = (0, 8, 12, 16, 20, 32)
    groups = [pc.utf8_slice_codeunits(digits, a, b) for a, b in pairwise(borders)]
    return _quoted(pc.binary_join_element_wise(*groups, "-"))


def _timestamps(array: pa.Array) -> pa.Array:
    # Arrow would write a zoned timestamp that is too far away as if it were in range.
    plain = array.view(pa.timestamp(array.type.unit))
    text = pc.replace_substring(plain.cast(pa.string()), " ", "T")
    return _quoted(_dated(plain, text if array.type.tz is None else _concat(text, "Z")))


def _dates(array: pa.Array) -> pa.Array:
    return _quoted(_dated(array, array.cast(pa.string())))


def _dated(array: pa.Array, text: pa.Array) -> pa.Array:
    """Replaces values too far away for Arrow to write as a date: DuckDB's infinities by their names, others by the
    plain number."""
    far = pc.starts_with(text, "<")
    if not pc.any(far).as_py():
        return text
    numbers = array.view(pa.int32() if types.is_date32(array.type) else pa.int64())
    largest = 2 ** (numbers.type.bit_width - 1) - 1
    text = pc.if_else(far, numbers.cast(pa.string()), text)
    text = pc.if_else(pc.equal(numbers, largest), "Infinity", text)
    return pc.if_else(pc.equal(numbers, -largest), "-Infinity", text)


def _structs(array: pa.Array) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    return pc.if_else(array.is_valid(), _objects(names, array.flatten(), len(array)), pa.scalar(None, pa.string()))


def _maps(array: pa.Array) -> pa.Array:
    offsets, start, length = _extent(array)
    keys, values = array.keys.slice(start, length), array.items.slice(start, length)
    if types.is_string(keys.type) or types.is_large_string(keys.type):
        return _enclosed(array, "{", offsets, _concat(_text(keys), ":", _text(values)), "}")
    return _enclosed(array, "[", offsets, _objects(["key", "value"], [keys, values], length), "]")


def _lists(array: pa.Array) -> pa.Array:
    offsets, start, length = _extent(array)
    return _enclosed(array, "[", offsets, _text(array.values.slice(start, length)), "]")


def _other_lists(array: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return _enclosed(array, "[", offsets, _text(pc.list_flatten(array)), "]")


def _extent(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Returns the offsets of the lists counted from the first item of this (perhaps sliced) array, the position of
    that item, and the number of items."""
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, pa.scalar(start, offsets.type)).cast(pa.int32()), start, end - start


def _enclosed(array: pa.Array, opening: str, offsets: pa.Array, items: pa.Array, closing: str) -> pa.Array:
    """Joins the items of each list and puts brackets around them. `items` has the texts of the items of all lists,
    one list after the other."""
    text = _concat(opening, pc.binary_join(pa.ListArray.from_arrays(offsets, items), ","), closing)
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())) if array.null_count else text


_WRITERS: dict[int, Callable[[pa.Array], pa.Array]] = {
    **dict.fromkeys((pa.int8().id, pa.int16().id, pa.int32().id, pa.int64().id), _integers),
    **dict.fromkeys((pa.uint8().id, pa.uint16().id, pa.uint32().id, pa.uint64().id), _integers),
    **dict.fromkeys((pa.float16().id, pa.float32().id, pa.float64().id), _floats),
    pa.bool_().id: _booleans,
    **dict.fromkeys((pa.string().id, pa.large_string().id, pa.string_view().id), _strings),
    **dict.fromkeys((pa.binary().id, pa.large_binary().id, pa.binary_view().id, pa.binary(1).id), _base64),
    **dict.fromkeys((pa.decimal128(1).id, pa.decimal256(1).id), _quoted_casts),
    **dict.fromkeys((pa.date32().id, pa.date64().id), _dates),
    **dict.fromkeys((pa.time32("s").id, pa.time64("us").id), _quoted_casts),
    pa.timestamp("us").id: _timestamps,
    pa.struct([]).id: _structs,
    pa.map_(pa.string(), pa.string()).id: _maps,
    **dict.fromkeys((pa.list_(pa.null()).id, pa.large_list(pa.null()).id), _lists),
    **dict.fromkeys((pa.list_(pa.null(), 1).id, pa.list_view(pa.null()).id), _other_lists),
    pa.dictionary(pa.int8(), pa.string()).id: lambda array: _values(array.dictionary_decode()),
    pa.uuid().id: _extensions,
}
"""Writers by the type id of the values. Types that are not here are written as Python prints them."""
