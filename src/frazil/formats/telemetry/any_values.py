"""Writes OTLP's `AnyValue`s as text, each with a letter that says which type it was, and reads them again.

Text stays as it is; numbers, booleans and bytes (base64) are written in one way only. Lists and maps are plain JSON
where that is exact: integers without a point, other numbers with one. Otherwise (bytes, NaN, an empty value, a
repeated key, references) they are OTLP's JSON, under a capital letter.
"""

from __future__ import annotations

import base64
import json
import logging
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList

TEXT, INT, DOUBLE, BOOL, BYTES, ARRAY, MAP = "s", "i", "d", "b", "x", "a", "k"
ODD_ARRAY, ODD_MAP = "A", "K"
NOTHING = "n"
"""The letter of a value without a type."""
ABSENT = "z"
"""The letter of an absent value."""

_REFERENCE = 'Strindex":'
"""In OTLP's JSON only the names of references end like this: a quote within a text has a backslash before it."""

Codes = npt.NDArray[np.uint8]

logger = logging.getLogger(__name__)


def to_text(values: pa.StructArray) -> tuple[pa.Array, Codes]:
    """Returns decoded `AnyValue`s as text, null where there is no value, and the letter of each as a number."""
    if not values.null_count and not (plain := values.field("string_value")).null_count:
        return plain, np.full(len(values), ord(TEXT), np.uint8)
    codes = np.full(len(values), ord(NOTHING), np.uint8)
    if values.null_count:
        codes[np.asarray(values.is_null())] = ord(ABSENT)
    texts: pa.Array | None = None
    for name, column in zip((field.name for field in values.type), values.flatten(), strict=True):
        if name not in _WRITERS or column.null_count == len(column):
            continue
        letter, write = _WRITERS[name]
        present = column.is_valid()
        codes[np.asarray(present)] = ord(letter)
        written = write(column, codes)
        texts = written if texts is None else pc.if_else(present, written, texts)
    return pa.nulls(len(values), pa.string()) if texts is None else texts, codes


def from_text(text: str | None, letter: str) -> AnyValue:
    """Turns text into a value again."""
    value = AnyValue()
    if text is not None:
        _READERS[letter](value, text)
    return value


@cache
def warn_of_references() -> None:
    """Warns about references, as OTLP asks for, but only once: a client that sends them does so again and again."""
    logger.warning("keys or values refer to strings that only profiles have: they are kept, but mean nothing")


# --- to text ---------------------------------------------------------------------------------------------------


def _cast(column: pa.Array, _: Codes) -> pa.Array:
    return column.cast(pa.string())


def _base64(column: pa.Array, _: Codes) -> pa.Array:
    return pl.Series(column).bin.encode("base64").to_arrow().cast(pa.string())


def _json(message: type[ArrayValue] | type[KeyValueList], odd: str) -> Callable[[pa.Array, Codes], pa.Array]:
    def write(column: pa.Array, codes: Codes) -> pa.Array:
        texts: list[str | None] = []
        for place, data in enumerate(column.to_pylist()):
            if data is None:
                texts.append(None)
                continue
            parsed = message.FromString(data)
            try:
                texts.append(json.dumps(_plain_of(parsed), ensure_ascii=False, separators=(",", ":")))
            except _NotExact:
                codes[place] = ord(odd)
                text = json_format.MessageToJson(parsed, indent=None, ensure_ascii=False)
                if _REFERENCE in text:
                    warn_of_references()
                texts.append(text)
        return pa.array(texts, pa.string())

    return write


class _NotExact(Exception):
    """Raised when plain JSON would not be exact."""


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    match kind:
        case None:
            return None
        case "array_value" | "kvlist_value":
            return _plain_of(getattr(value, kind))
        case "double_value":
            if not math.isfinite(value.double_value):
                raise _NotExact
            return value.double_value
        case "string_value" | "bool_value" | "int_value":
            return getattr(value, kind)
    raise _NotExact


def _plain_of(message: ArrayValue | KeyValueList) -> Any:
    if isinstance(message, ArrayValue):
        return [_plain(value) for value in message.values]
    found: dict[str, Any] = {}
    for pair in message.values:
        if pair.key in found or pair.key_strindex or not pair.HasField("value"):
            raise _NotExact
        found[pair.key] = _plain(pair.value)
    return found


_WRITERS: dict[str, tuple[str, Callable[[pa.Array, Codes], pa.Array]]] = {
    "string_value": (TEXT, lambda column, _: column),
    "bool_value": (BOOL, _cast),
    "int_value": (INT, _cast),
    "double_value": (DOUBLE, _cast),
    "bytes_value": (BYTES, _base64),
    "array_value": (ARRAY, _json(ArrayValue, ODD_ARRAY)),
    "kvlist_value": (MAP, _json(KeyValueList, ODD_MAP)),
}
"""The letter and the writer of each field of `AnyValue`. A reference to a string table has no type
(`string_references`)."""


# --- from text -------------------------------------------------------------------------------------------------


def _read_bool(value: AnyValue, text: str) -> None:
    value.bool_value = text == "true"


def _read_plain(value: AnyValue, text: str) -> None:
    _fill(value, json.loads(text))


def _fill(value: AnyValue, plain: Any) -> None:
    match plain:
        case bool():
            value.bool_value = plain
        case int():
            value.int_value = plain
        case float():
            value.double_value = plain
        case str():
            value.string_value = plain
        case list():
            value.array_value.SetInParent()
            for item in plain:
                _fill(value.array_value.values.add(), item)
        case dict():
            value.kvlist_value.SetInParent()
            for key, item in plain.items():
                pair = value.kvlist_value.values.add(key=key)
                pair.value.SetInParent()
                _fill(pair.value, item)


_READERS: dict[str, Callable[[AnyValue, str], None]] = {
    TEXT: lambda value, text: setattr(value, "string_value", text),
    INT: lambda value, text: setattr(value, "int_value", int(text)),
    DOUBLE: lambda value, text: setattr(value, "double_value", float(text)),
    BOOL: _read_bool,
    BYTES: lambda value, text: setattr(value, "bytes_value", base64.b64decode(text)),
    ARRAY: _read_plain,
    MAP: _read_plain,
    ODD_ARRAY: lambda value, text: json_format.Parse(text, value.array_value),
    ODD_MAP: lambda value, text: json_format.Parse(text, value.kvlist_value),
}
