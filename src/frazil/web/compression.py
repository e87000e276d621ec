"""Compresses answers piece by piece, if the client takes that."""

from __future__ import annotations

import zlib
from typing import Protocol

import zstandard

MOST_PLAIN_BYTES = 1024
"""Answers up to this size are sent as they are: in one packet, compressed or not."""
_GZIP_LEVEL = 5
_GZIP_WINDOW = 31
"""With this number zlib writes the header and the checksum of gzip."""
_ZSTD_LEVEL = 3


class Encoder(Protocol):
    def add(self, piece: bytes) -> bytes:
        """Returns compressed bytes that are ready, which may be none."""

    def end(self) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)

    def add(self, piece: bytes) -> bytes:
        return self._stream.compress(piece)

    def end(self) -> bytes:
        return self._stream.flush()


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor(_ZSTD_LEVEL).compressobj()

    def add(self, piece: bytes) -> bytes:
        return self._stream.compress(piece)

    def end(self) -> bytes:
        return self._stream.flush()


_ENCODERS: dict[str, type[_Gzip | _Zstd]] = {"zstd": _Zstd, "gzip": _Gzip}
"""Of encodings that a client likes as much, the first one is taken."""


def encoding_for(accepted: str) -> str | None:
    """Returns the encoding for a header `Accept-Encoding`; None if the answer is to be sent as it is."""
    weights: dict[str, float] = {}
    for each in accepted.split(","):
        name, _, weight = each.partition(";")
        weights[name.strip().lower()] = _weight(weight)
    liked = {name: weights.get(name, weights.get("*", 0.0)) for name in _ENCODERS}
    best = max(liked, key=lambda name: liked[name])
    return best if liked[best] > 0 else None


def encoder(encoding: str) -> Encoder:
    return _ENCODERS[encoding]()


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
