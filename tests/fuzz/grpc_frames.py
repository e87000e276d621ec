"""Sends damaged frames of gRPC: lengths, flags, encodings and methods that no client would send."""

from __future__ import annotations

import asyncio
import gzip
import re
import struct
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import grpc

from tests.doors.telemetry.raw import END_STREAM, HEADERS, RESET, Wire, data, head_2
from tests.fuzz.answers import Answer, of_code
from tests.fuzz.call import Call
from tests.fuzz.mutation import Chance, damaged

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_FLAGS = (0, 1, 1, 2, 0x80, 0xFF)
_ENCODINGS = ("", "identity", "gzip", "gzip", "deflate", "snappy", "zstd", "x" * 40, "gzip, gzip")
_METHODS = ("Export", "Export", "Export", "Export", "export", "", "NoSuchCall", "Export/Export", "é", "x" * 90)
_LENGTHS = (0, 1, 4, 2**16, 2**26 + 1, 2**31 - 1, 2**31, 2**32 - 1)
_BY_GRPC = ("UnicodeDecodeError", "larger than max")
"""gRPC itself answers so to a method that is no UTF-8, and to too long a message.

It refuses frames with INTERNAL before a handler sees them. Exporters send none of these again.
"""
_LITTLE = 40_000
"""So many bytes fit the window that a connection begins with."""
_PATIENCE_SECONDS = 60.0


def frame_calls(port: int, services: Sequence[str], bodies: Sequence[bytes]) -> Iterator[Call]:
    """Yields calls to the services of a port. `bodies` are valid messages."""
    for service in services:
        yield _call(port, service, bodies)


def _call(port: int, service: str, bodies: Sequence[bytes]) -> Call:
    async def make(chance: Chance) -> Answer:
        fields = [("content-type", "application/grpc"), ("te", "trailers")]
        if encoding := chance.choice(_ENCODINGS):
            fields.append(("grpc-encoding", encoding))
        if chance.random() < 0.1:
            fields = fields[chance.randrange(1, 3) :]
        path = f"/{service}/{chance.choice(_METHODS)}"
        sent = b"".join(_frame(chance, chance.choice(bodies)) for _ in range(chance.choice((1, 1, 1, 0, 2))))
        return await _exchange(port, head_2(path, None, fields) + data(sent[:_LITTLE], end=True))

    return Call(f"frames {service}", make)


def _frame(chance: Chance, body: bytes) -> bytes:
    """Returns a frame of gRPC: whether it is compressed, the length, and the message."""
    if chance.random() < 0.5:
        body = gzip.compress(body, 1)
    if chance.random() < 0.5:
        body = damaged(chance, body, body)
    length = chance.choice((len(body), len(body), len(body) + 1, max(0, len(body) - 1), chance.choice(_LENGTHS)))
    return struct.pack(">BI", chance.choice(_FLAGS), length) + body


async def _exchange(port: int, request: bytes) -> Answer:
    """Returns the answer to the only request of a connection."""
    wire = await Wire.open(f"http://127.0.0.1:{port}")
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await wire.send(request)
            return await _answer(wire)
    except (ConnectionError, asyncio.IncompleteReadError):
        return Answer(400, "the connection was closed")
    finally:
        wire.abort()


async def _answer(wire: Wire) -> Answer:
    heads = b""
    while True:
        kind, flags, stream, payload = await wire.frame()
        if stream != 1:
            continue
        if kind == RESET:
            return Answer(400, f"the stream was reset, with {payload.hex()}")
        if kind == HEADERS:
            heads += payload
        if flags & END_STREAM and kind in (0, HEADERS):
            return _answer_in(heads)


def _answer_in(heads: bytes) -> Answer:
    """Finds the status in the headers: the first answer of a connection has them as plain text, without Huffman's
    code.
    """
    found = re.search(rb"grpc-status[\x01\x02](\d{1,2})", heads)
    if found is None:
        # This was no call of gRPC, so it is answered as HTTP does.
        return Answer(400, heads.decode("latin-1"))
    code, text = _CODES[int(found[1])], unquote(heads.decode("latin-1"))
    if code is grpc.StatusCode.INTERNAL or any(word in text for word in _BY_GRPC):
        return Answer(400, "")
    return of_code(code, text)
