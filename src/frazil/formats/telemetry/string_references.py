"""Keeps references to a string table, which only profiles have: in other signals nothing says what they refer to.

OTLP wants a key or value that is a reference to be treated as absent, so it is in no map and no text. It is kept
beside the types: after the letters come a blank and OTLP's JSON of what must be added to the message that is made
without it.

For a single value that is an `AnyValue`. For attributes it is an object by the positions of those with a reference: a
`KeyValue` with what the map lacks for this entry, or, where the position has a plus, the whole of an attribute that
is not in the map. Such an attribute has a reference and no text as its key, or a later one has the same key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from frazil.formats.telemetry.any_values import ABSENT, NOTHING, TEXT, Codes, from_text, warn_of_references
from frazil.formats.telemetry.runs import Ints

BLANK = " "
"""The separator between letters and references."""
_BESIDE = "+"
"""The prefix of the position of an attribute that is not in the map."""
_DEEPEST = 200
"""The most nested messages. Protobuf's runtime allows 100 in a list or map of values, and here are more around it."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class References(NamedTuple):
    """The references of attributes."""

    keys: Ints
    """The reference of each key; 0 where there is none."""
    values: pa.Array
    """The reference of each value; null where there is none."""

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (self.keys != 0) | np.asarray(self.values.is_valid())
        return found


class ReferencedAttribute(NamedTuple):
    """An attribute that the map does not hold completely."""

    place: int
    beside: bool
    """This says whether it is missing from the map."""
    key: str
    text: str | None
    letter: str
    key_reference: int
    """The reference of the key; 0 if there is none."""
    value_reference: int | None


# --- from columns ----------------------------------------------------------------------------------------------


def of_pairs(pairs: pa.StructArray, codes: Codes) -> References | None:
    """Returns the references of decoded `KeyValue`s, whose values have these letters; None if there are none."""
    keys = pairs.field("key_strindex").to_numpy()
    values = _of_values(pairs.field("value"), codes)
    if values is None and not keys.any():
        return None
    warn_of_references()
    return References(keys, pa.nulls(len(pairs), pa.int32()) if values is None else values)


def with_references(types: pa.Array, values: pa.StructArray, codes: Codes) -> pa.Array:
    """Returns the types of decoded `AnyValue`s, which have these letters, with the references among them."""
    found = _of_values(values, codes)
    if found is None:
        return types
    warn_of_references()
    written = pc.binary_join_element_wise(
        f'{NOTHING}{BLANK}{{"stringValueStrindex":', found.cast(pa.string()), "}", ""
    )
    return pc.coalesce(written, types)


def _of_values(values: pa.StructArray, codes: Codes) -> pa.Array | None:
    found = values.field("string_value_strindex")
    if found.null_count == len(found):
        return None
    # If the bytes also have a value of another type, the last one counts, as in a `oneof`.
    return pc.if_else(pa.array(codes == ord(NOTHING)), found, pa.scalar(None, pa.int32()))


# --- as text ---------------------------------------------------------------------------------------------------


def with_letters(letters: str, attributes: Iterable[ReferencedAttribute]) -> str:
    """Returns the types of a row's attributes: the letters, then the attributes with references."""
    found = (f'"{_BESIDE * each.beside}{each.place}":{_pair(each)}' for each in attributes)
    return f"{letters}{BLANK}{{{','.join(found)}}}"


def _pair(attribute: ReferencedAttribute) -> str:
    found = []
    if attribute.beside and attribute.key:
        found.append(f'"key":{_encode(attribute.key)}')
    if attribute.key_reference:
        found.append(f'"keyStrindex":{attribute.key_reference}')
    if attribute.value_reference is not None:
        found.append(f'"value":{{"stringValueStrindex":{attribute.value_reference}}}')
    elif attribute.beside and attribute.letter != ABSENT:
        found.append(f'"value":{_encode(_value(attribute.text, attribute.letter))}')
    return f"{{{','.join(found)}}}"


def _value(text: str | None, letter: str) -> dict[str, Any]:
    if letter == TEXT:
        return {"stringValue": text}
    found: dict[str, Any] = json_format.MessageToDict(from_text(text, letter))
    return found


# --- from text -------------------------------------------------------------------------------------------------


def complete(value: AnyValue, references: str) -> None:
    """Adds the references to a single value."""
    json_format.Parse(references, value)


def completed(pairs: Iterable[KeyValue], references: str) -> Iterator[KeyValue]:
    """Yields the pairs of a map completed by their references, and the attributes that are not in the map."""
    rest, done = iter(pairs), 0
    for place, data in json.loads(references).items():
        yield from islice(rest, int(place) - done)
        done = int(place) + 1
        pair = KeyValue() if place.startswith(_BESIDE) else next(rest)
        yield json_format.ParseDict(data, pair, max_recursion_depth=_DEEPEST)
    yield from rest
