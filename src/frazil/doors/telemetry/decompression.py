"""Decompresses the bodies of requests, up to a limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import zstandard

from frazil.errors import BodyTooLarge, BodyUnsupported, RequestError

_ZSTD_BYTES = 1024
"""The bytes decompressed at a time. Each may become up to 32 MiB, and only then the size is known."""
_STEP_BYTES = 1 << 14
"""The bytes decompressed at a time after the first of several streams: when a stream ends, what follows it is
copied."""
_MOST_STREAMS = 10_000
"""The most streams in a body. Each costs time, even if it is empty."""


_SNAPPY_GROWTH = 22
"""A Snappy block grows by no larger factor, because three bytes stand for at most 64. So a few bytes cannot make us
allocate much."""


def too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body is over the limit of {most:,} bytes (`telemetry.max_body_mb`), counted after decompression. "
        f"Send smaller batches."
    )


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Returns the decompressed body. A body that would become larger than `most` is refused before it does."""
    if encoding not in _CODECS:
        raise BodyUnsupported(f"{encoding[:40]!r} is none of the encodings {', '.join(filter(None, _CODECS))}.")
    if len(body) > most:
        raise too_large(most)
    try:
        return _CODECS[encoding](body, most)
    except (zlib.error, zstandard.ZstdError, pa.ArrowException, OSError, EOFError) as error:
        raise RequestError(f"The body is not {encoding}: {str(error).rstrip('.')}.") from error


def _plain(body: bytes, _: int) -> bytes:
    return body


def _one_more(streams: int) -> int:
    if streams == _MOST_STREAMS:
        raise RequestError(f"The body is more than {_MOST_STREAMS:,} compressed streams, one after the other.")
    return streams + 1


def _zlib(window: int) -> Callable[[bytes, int], bytes]:
    def inflate(body: bytes, most: int) -> bytes:
        parts: list[bytes] = []
        view = memoryview(body)
        room, at, step = most, 0, len(body)
        streams = 0
        while at < len(body):
            # A body may consist of several streams, one after the other.
            streams = _one_more(streams)
            stream = zlib.decompressobj(window)
            while not stream.eof:
                if at == len(body):
                    raise EOFError("it ends too early")
                taken = view[at : at + step]
                parts.append(stream.decompress(taken, room + 1))
                room -= len(parts[-1])
                if room < 0:
                    raise too_large(most)
                at += len(taken) - len(stream.unused_data)
            step = _STEP_BYTES
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return inflate


def _zstd(body: bytes, most: int) -> bytes:
    parts: list[bytes] = []
    room, at = most, 0
    streams = 0
    frame = None
    while at < len(body):
        if frame is None:
            streams = _one_more(streams)
            frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(body[at : at + _ZSTD_BYTES]))
        at += _ZSTD_BYTES
        room -= len(parts[-1])
        if room < 0:
            raise too_large(most)
        if frame.eof:
            at = min(at, len(body)) - len(frame.unused_data)
            frame = None
    if frame is not None:
        raise EOFError("it ends too early")
    return b"".join(parts)


def _deflate(body: bytes, most: int) -> bytes:
    """Decompresses deflate with the zlib header that it should have, or without it, as some clients send it."""
    try:
        return _zlib(zlib.MAX_WBITS)(body, most)
    except zlib.error:
        return _zlib(-zlib.MAX_WBITS)(body, most)


def _snappy(body: bytes, most: int) -> bytes:
    """Decompresses one Snappy block, which begins with its uncompressed size."""
    size = shift = 0
    for place in range(min(len(body), 5)):
        size |= (body[place] & 0x7F) << shift
        shift += 7
        if body[place] < 0x80:
            break
    else:
        raise EOFError("it does not say how long it is")
    if size > most:
        raise too_large(most)
    if size > _SNAPPY_GROWTH * len(body):
        raise EOFError("it says that it is longer than so many bytes can stand for")
    found: bytes = pa.decompress(body, size, "snappy", asbytes=True)
    return found


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "": _plain,
    "identity": _plain,
    "gzip": _zlib(16 + zlib.MAX_WBITS),
    "deflate": _deflate,
    "zstd": _zstd,
    "snappy": _snappy,
}
