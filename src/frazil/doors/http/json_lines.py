"""Parses JSON lines into messages, one object in each line.

An object has `payload` (text) or `payload_base64` (any bytes), and may have `key`, `attributes`, `publish_time`,
`producer_name`, `schema_id` and `schema_version`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from frazil.doors.http.times import parse_time
from frazil.errors import InvalidMessage, RequestError
from frazil.topics.messages import Message, to_batch

_FIELDS = (
    "payload",
    "payload_base64",
    "key",
    "attributes",
    "publish_time",
    "producer_name",
    "schema_id",
    "schema_version",
)
_AT_A_TIME = 4096
"""So many messages are Python objects at a time, because objects take many times the bytes of the message."""


def parse(body: bytes, now_ms: int) -> pa.RecordBatch:
    batches: list[pa.RecordBatch] = []
    messages: list[Message] = []
    for number, line in _lines(body):
        messages.append(_message(number, line))
        if len(messages) == _AT_A_TIME:
            batches.append(to_batch(messages, now_ms))
            messages.clear()
    batches.append(to_batch(messages, now_ms))
    return pa.concat_batches(batches)


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not blank, with their numbers."""
    start = number = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        number += 1
        if line := body[start:end].strip():
            yield number, line
        start = end + 1


def _message(number: int, line: bytes) -> Message:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"Line {number} is not JSON: {error}.") from error
    try:
        return _message_of(given)
    except RequestError as error:
        raise InvalidMessage(f"Line {number}: {error}") from error


def _message_of(given: Any) -> Message:
    if not isinstance(given, dict):
        raise InvalidMessage('a message is an object, like {"payload": "text"}.')
    if unknown := [name for name in given if name not in _FIELDS]:
        raise InvalidMessage(f"{unknown[0]!r} is not a part of a message; there are {', '.join(_FIELDS)}.")
    time = given.get("publish_time")
    return Message(
        _payload(given),
        None if time is None else parse_time(str(time), "publish_time"),
        _text(given, "producer_name") or "",
        _attributes(given.get("attributes")),
        _text(given, "key"),
        _number(given, "schema_id"),
        _number(given, "schema_version"),
    )


def _payload(given: dict[str, Any]) -> bytes:
    text, encoded = _text(given, "payload"), _text(given, "payload_base64")
    if (text is None) == (encoded is None):
        raise InvalidMessage("a message needs either a 'payload' of text or a 'payload_base64' of bytes.")
    if encoded is None:
        return _utf8(text or "", "payload")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidMessage(f"payload_base64 is not base64: {error}.") from error


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"{name} is no text: half a character stands at place {error.start}.") from error


def _text(given: dict[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidMessage(f"{name} is text, not {json.dumps(value)[:40]}.")
    if value is not None:
        _utf8(value, name)
    return value


def _number(given: dict[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidMessage(f"{name} is a whole number, not {json.dumps(value)[:40]}.")
    return value


def _attributes(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise InvalidMessage('attributes are an object of texts, like {"shop": "north"}.')
    for name, text in value.items():
        _utf8(name + text, "an attribute")
    return value
