"""References to a table of strings, which only profiles have: in other signals nothing says what they stand for.

OTLP wants a key or value that is one to be as if it were not there, so no map and no text has anything of it. What
came is kept beside the types: after the letters come a blank and, in the JSON that OTLP has for it, what is to be
added to the message that is made without.

For a value alone that is an `AnyValue`. For attributes it is an object, by the places of those that have a reference:
a `KeyValue` with what the map does not say of this entry, or, where the place has a plus, all of an attribute that is
not in the map: its key is a reference and no text, or a later one has the same key.
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
"""Between letters and references."""
_BESIDE = "+"
"""Before the place of what is not in the map."""
_DEEPEST = 200
"""Messages within each other: Protobuf's runtime takes 100 of them in a list or map of values, and there are more
around it here."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class References(NamedTuple):
    """Of each attribute."""

    keys: Ints
    """0 where the key is none."""
    values: pa.Array
    """Null where the value is none."""

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (self.keys != 0) | np.asarray(self.values.is_valid())
        return found


class ReferencedAttribute(NamedTuple):
    """An attribute of which the map does not say all."""

    place: int
    beside: bool
    """It is not in the map."""
    key: str
    text: str | None
    letter: str
    key_reference: int
    """0 for none."""
    value_reference: int | None


# --- from columns ----------------------------------------------------------------------------------------------


def of_pairs(pairs: pa.StructArray, codes: Codes) -> References | None:
    """Those of decoded `KeyValue`s, whose values have these letters; None if there are none."""
    keys = pairs.field("key_strindex").to_numpy()
    values = _of_values(pairs.field("value"), codes)
    if values is None and not keys.any():
        return None
    warn_of_references()
    return References(keys, pa.nulls(len(pairs), pa.int32()) if values is None else values)


def with_references(types: pa.Array, values: pa.StructArray, codes: Codes) -> pa.Array:
    """The types of decoded `AnyValue`s that have these letters, with the references that are among them."""
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
    # Where the bytes have a value of another type too, which only one can be, it is this that counts.
    return pc.if_else(pa.array(codes == ord(NOTHING)), found, pa.scalar(None, pa.int32()))


# --- as text ---------------------------------------------------------------------------------------------------


def with_letters(letters: str, told: Iterable[ReferencedAttribute]) -> str:
    """The types of some attributes, where these are told, in their order."""
    found = (f'"{_BESIDE * each.beside}{each.place}":{_pair(each)}' for each in told)
    return f"{letters}{BLANK}{{{','.join(found)}}}"


def _pair(told: ReferencedAttribute) -> str:
    found = []
    if told.beside and told.key:
        found.append(f'"key":{_encode(told.key)}')
    if told.key_reference:
        found.append(f'"keyStrindex":{told.key_reference}')
    if told.value_reference is not None:
        found.append(f'"value":{{"stringValueStrindex":{told.value_reference}}}')
    elif told.beside and told.letter != ABSENT:
        found.append(f'"value":{_encode(_value(told.text, told.letter))}')
    return f"{{{','.join(found)}}}"


def _value(text: str | None, letter: str) -> dict[str, Any]:
    if letter == TEXT:
        return {"stringValue": text}
    found: dict[str, Any] = json_format.MessageToDict(from_text(text, letter))
    return found


# --- from text -------------------------------------------------------------------------------------------------


def complete(value: AnyValue, references: str) -> None:
    """Of a value alone."""
    json_format.Parse(references, value)


def completed(pairs: Iterable[KeyValue], references: str) -> Iterator[KeyValue]:
    """Pairs of a map, with what is told of them, and with those beside it."""
    rest, done = iter(pairs), 0
    for place, data in json.loads(references).items():
        yield from islice(rest, int(place) - done)
        done = int(place) + 1
        pair = KeyValue() if place.startswith(_BESIDE) else next(rest)
        yield json_format.ParseDict(data, pair, max_recursion_depth=_DEEPEST)
    yield from rest
