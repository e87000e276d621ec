"""Translates Loki's push requests in JSON to Protobuf.

Numbers are read as the bytes they are written with, so they are told apart from texts and take no more memory.
"""

from __future__ import annotations

import json
import re
from typing import Any

from frazil.errors import RequestError
from frazil.formats.loki.labels import labels_text
from frazil.formats.loki.messages import PushRequest

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_SECOND = 10**9


class _Wrong(Exception):
    """Raised when the request is invalid; the message says where and why."""


def to_protobuf(body: bytes) -> bytes:
    message = PushRequest()
    try:
        data = json.loads(
            body.decode("utf-8-sig", "replace"),
            parse_int=str.encode,
            parse_float=str.encode,
            parse_constant=_no_constant,
        )
        _fill(message, data)
    except (ValueError, RecursionError, _Wrong) as error:
        reason = " ".join(str(error).split())
        raise RequestError(f"The body is no push request in JSON: {reason}.") from error
    serialized: bytes = message.SerializeToString()
    return serialized


def _fill(message: Any, data: Any) -> None:
    if not isinstance(data, dict) or "streams" not in data:
        raise _Wrong("it is no object with `streams`")
    for number, stream in enumerate(_listed(data["streams"], "streams")):
        where = f"streams[{number}]"
        if not isinstance(stream, dict):
            raise _Wrong(f"{where}: it is no object")
        try:
            labels = labels_text(_texts(stream.get("stream", {})))
        except _Wrong as error:
            raise _Wrong(f"{where}.stream: {error}") from error
        target = message.streams.add(labels=_bytes(labels))
        for place, entry in enumerate(_listed(stream.get("values"), f"{where}.values")):
            # Loki skips entries that are null.
            if entry is not None:
                try:
                    _add(target.entries, entry)
                except _Wrong as error:
                    raise _Wrong(f"{where}.values[{place}]: {error}") from error


def _add(entries: Any, entry: Any) -> None:
    if not isinstance(entry, list) or len(entry) not in (2, 3):
        raise _Wrong("it is no list of time, line and perhaps metadata")
    time, line = entry[:2]
    if type(time) is not str or not _WHOLE.fullmatch(time) or not -(2**63) <= int(time) < 2**63:
        raise _Wrong(f"the time is no text of nanoseconds: {_shown(time)}")
    if type(line) is not str:
        raise _Wrong(f"the line is no text: {_shown(line)}")
    target = entries.add(line=_bytes(line))
    target.timestamp.seconds, target.timestamp.nanos = divmod(int(time), _SECOND)
    if len(entry) == 3:
        for name, value in _texts(entry[2]).items():
            target.structured_metadata.add(name=_bytes(name), value=_bytes(value))


def _texts(data: Any) -> dict[str, str]:
    """Returns names and texts. A scalar that is not text becomes the text it is written as."""
    if not isinstance(data, dict):
        raise _Wrong(f"it is no object of names and texts: {_shown(data)}")
    if all(isinstance(value, str) for value in data.values()):
        return data
    return {name: _text(name, value) for name, value in data.items()}


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict | list):
        raise _Wrong(f"{_shown(name)} is no text: {_shown(value)}")
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else json.dumps(value)


def _listed(data: Any, where: str) -> list[Any]:
    if data is None:
        return []
    if not isinstance(data, list):
        raise _Wrong(f"{where}: it is no list")
    return data


def _bytes(text: str) -> bytes:
    """Encodes a text. Half of a surrogate pair, which JSON allows, becomes invalid UTF-8 and is treated as such
    later."""
    return text.encode("utf-8", "surrogatepass")


def _shown(value: Any) -> str:
    return value[:40].decode() if isinstance(value, bytes) else json.dumps(value, default=bytes.decode)[:40]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
