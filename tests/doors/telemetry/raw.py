"""Builds requests as bytes, so that they can end where no client would end them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable

import httpx

HEADERS, RESET, SETTINGS, GOAWAY = 1, 3, 4, 7
END_STREAM, END_HEADERS = 1, 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MOST_IN_FRAME = 1 << 14
_STATUS_200 = 0x88
"""`:status: 200` in HPACK."""

Fields = Iterable[tuple[str, str]]


def head_1(path: str, length: int | None, fields: Fields) -> bytes:
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    told = [f"{name}: {value}" for name, value in fields]
    return "\r\n".join([f"POST {path} HTTP/1.1", "host: x", *told, size, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def head_2(path: str, length: int | None, fields: Fields) -> bytes:
    """Returns the beginning of a connection, and the head of its only request."""
    asked = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path), *fields]
    if length is not None:
        asked.append(("content-length", str(length)))
    return _PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, _block(asked))


def data(content: bytes, end: bool = False) -> bytes:
    parts = [content[at : at + _MOST_IN_FRAME] for at in range(0, len(content), _MOST_IN_FRAME)] or [b""]
    frames = [frame(0, 0, 1, part) for part in parts[:-1]]
    return b"".join([*frames, frame(0, END_STREAM if end else 0, 1, parts[-1])])


def trailers() -> bytes:
    return frame(HEADERS, END_HEADERS | END_STREAM, 1, _block([("x-sum", "1")]))


def reset(code: int) -> bytes:
    return frame(RESET, 0, 1, struct.pack(">I", code))


def goaway() -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0))


def _block(fields: Fields) -> bytes:
    """Encodes headers as literals without an index, which need no table."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode("latin-1")


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Wire:
        where = httpx.URL(url)
        return cls(*await asyncio.open_connection(where.host, where.port))

    async def send(self, *parts: bytes, pause: float = 0.0) -> None:
        """Sends each part by itself."""
        for part in parts:
            self._writer.write(part)
            await self._writer.drain()
            await asyncio.sleep(pause)

    async def frame(self) -> tuple[int, int, int, bytes]:
        """Reads the next HTTP/2 frame: type, flags, stream and payload."""
        head = await self._reader.readexactly(9)
        size, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], head[5:]
        return kind, flags, int.from_bytes(stream, "big"), await self._reader.readexactly(size)

    async def is_accepted(self) -> bool:
        """Returns whether the first request is answered with 200."""
        first = await self._reader.readexactly(9)
        if first.startswith(b"HTTP/1.1"):
            return (first + await self._reader.readline()).startswith(b"HTTP/1.1 200 ")
        while first[3] != HEADERS:
            await self._reader.readexactly(int.from_bytes(first[:3], "big"))
            first = await self._reader.readexactly(9)
        return (await self._reader.readexactly(1))[0] == _STATUS_200

    async def skip_head(self) -> None:
        """Reads the rest of the head of an HTTP/1.1 answer."""
        await self._reader.readuntil(b"\r\n\r\n")

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Closes the connection as if the client had died."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
