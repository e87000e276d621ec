"""Translates OTLP requests in JSON to Protobuf.

OTLP writes ids in hexadecimal, whereas Protobuf's JSON has base64. Only fields that are ids are translated: an
unknown field may have the same name and any content.
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
"""The errors that the parser raises for what a client may send."""
_MINUS_ZERO = re.compile(rb"-0(?![.\deE])")
"""Matches how some clients write the double -0.0. JSON's parser would read it as an integer, and lose the sign."""
_IDS = {"trace_id", "span_id", "parent_span_id"}

_Places = dict[str, "_Places | None"]
"""The fields of a message that are ids (None), and those that contain ids further down."""


def to_protobuf(kind: type[Message], body: bytes) -> bytes:
    message = kind()
    try:
        data = json.loads(body, parse_int=_integer) if _MINUS_ZERO.search(body) else json.loads(body)
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        _translate_ids(data, _places_in(kind.DESCRIPTOR))
        json_format.ParseDict(data, message, ignore_unknown_fields=True)
    except _WRONG as error:
        # The error that Protobuf's runtime raises for a name that is not text says nothing by itself.
        problem = error.__cause__ if isinstance(error, SystemError) else error
        reason = " ".join(str(problem).split()).rstrip(".")
        raise RequestError(f"The body is no {kind.DESCRIPTOR.name} in JSON: {reason}.") from error
    serialized: bytes = message.SerializeToString()
    return serialized


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


@cache
def _places_in(kind: Descriptor, around: frozenset[str] = frozenset()) -> _Places:
    """Returns the fields with ids. `around` has the messages that enclose this one; only values contain themselves,
    and these have no ids."""
    if kind.full_name in around:
        return {}
    around |= {kind.full_name}
    places: _Places = {}
    for field in kind.fields:
        # The parser accepts both names.
        names = (field.json_name, field.name)
        if field.name in _IDS:
            places.update(dict.fromkeys(names))
        elif field.message_type is not None and (within := _places_in(field.message_type, around)):
            places.update(dict.fromkeys(names, within))
    return places


def _translate_ids(data: dict[str, Any], places: _Places) -> None:
    """Translates the ids in `data`. Invalid content is left to the parser, which reports it."""
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
