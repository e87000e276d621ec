"""Bodies in JSON as the Protobuf that they stand for.

OTLP writes ids in hexadecimal, where JSON of Protobuf has base64. No other object has keys of these names: attributes
are lists of pairs.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from frazil.errors import RequestError

_IDS = {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}


def to_protobuf(kind: type[Message], body: bytes) -> bytes:
    message = kind()
    try:
        data = json.loads(body)
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        _translate_ids(data)
        json_format.ParseDict(data, message, ignore_unknown_fields=True)
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, json_format.Error) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RequestError(f"The body is no {kind.DESCRIPTOR.name} in JSON: {reason}.") from error
    serialized: bytes = message.SerializeToString()
    return serialized


def _translate_ids(data: Any) -> None:
    if isinstance(data, list):
        for item in data:
            if isinstance(item, dict | list):
                _translate_ids(item)
    elif isinstance(data, dict):
        for key, value in data.items():
            if isinstance(value, dict | list):
                _translate_ids(value)
            elif key in _IDS and isinstance(value, str):
                data[key] = base64.b64encode(_from_hex(key, value)).decode()


def _from_hex(key: str, text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{key} is not hexadecimal: {text[:40]!r}") from error
