"""Bodies in JSON as the Protobuf that they stand for.

OTLP writes ids in hexadecimal, where JSON of Protobuf has base64. They are looked for only where a message has them:
a field that nobody knows may have the same name and anything in it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from functools import cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from frazil.errors import RequestError

_WRONG = (
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    SystemError,
    json_format.Error,
)
"""Raised for what a client may send."""
_MINUS_ZERO = re.compile(rb"-0(?![.\deE])")
"""As some clients write the double, of which JSON's parser makes an integer, without a sign."""
_IDS = {"trace_id", "span_id", "parent_span_id"}

_Places = dict[str, "_Places | None"]
"""The fields of a message that are ids, which have nothing further, and those that have ids within them."""


def to_protobuf(kind: type[Message], body: bytes) -> bytes:
    message = kind()
    try:
        data = json.loads(body, parse_int=_integer) if _MINUS_ZERO.search(body) else json.loads(body)
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        _translate_ids(data, _places_in(kind.DESCRIPTOR))
        json_format.ParseDict(data, message, ignore_unknown_fields=True)
    except _WRONG as error:
        # What the runtime of Protobuf raises for a name that is no text says nothing by itself.
        problem = error.__cause__ if isinstance(error, SystemError) else error
        reason = " ".join(str(problem).split()).rstrip(".")
        raise RequestError(f"The body is no {kind.DESCRIPTOR.name} in JSON: {reason}.") from error
    serialized: bytes = message.SerializeToString()
    return serialized


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


@cache
def _places_in(kind: Descriptor, around: frozenset[str] = frozenset()) -> _Places:
    """`around` has the messages that this one is within: of these, only values are within themselves, and without
    ids."""
    if kind.full_name in around:
        return {}
    around |= {kind.full_name}
    places: _Places = {}
    for field in kind.fields:
        # Both names are read.
        names = (field.json_name, field.name)
        if field.name in _IDS:
            places.update(dict.fromkeys(names))
        elif field.message_type is not None and (within := _places_in(field.message_type, around)):
            places.update(dict.fromkeys(names, within))
    return places


def _translate_ids(data: dict[str, Any], places: _Places) -> None:
    """What is not as it should be is left to the parser, which says so."""
    for name, within in places.items():
        value = data.get(name)
        if value is None:
            continue
        if within is None:
            if isinstance(value, str):
                data[name] = base64.b64encode(_from_hex(name, value)).decode()
        elif isinstance(value, dict):
            _translate_ids(value, within)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _translate_ids(item, within)


def _from_hex(key: str, text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{key} is not hexadecimal: {text[:40]!r}") from error
