"""The frame format of all local logs: `[length u32][entry][crc32 u32]`, little-endian.

An entry is `[magic "FZ"][version u8][kind u8][body]`. The checksum covers length and entry. Frames start at
multiples of eight, so the Arrow buffers inside a body can be used straight from a mapped file, and a clean
frame after a damaged one can be found again.

A length of zero is the end: a file may be longer than its frames.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from isal.isal_zlib import crc32

from frazil.errors import LogVersionUnsupported

VERSION = 1
ALIGN = 8
OVERHEAD = 12
"""A frame has this many bytes beside its body: length, magic, version, kind and checksum."""
BODY_START = 8
"""The body begins at this byte of its frame."""
MAX_BODY = 0xFFFF_FFF0

_MAGIC = b"FZ"
_HEAD = struct.Struct("<I2sBB")
_U32 = struct.Struct("<I")

Bytes = bytes | memoryview


class Outcome(Enum):
    NEED_MORE = "need more"
    CORRUPT = "corrupt"


class Frame(NamedTuple):
    start: int
    end: int
    kind: int
    version: int
    crc: int

    def body(self, data: memoryview) -> memoryview:
        return data[self.start + BODY_START : self.end - 4]


class Encoded(NamedTuple):
    """An encoded frame, in parts for `os.pwritev`."""

    parts: list[Bytes]
    size: int
    crc: int


def encode(kind: int, body: Sequence[Bytes], *, fill: bytes = b"\0") -> Encoded:
    """Encode a frame. `fill` pads its body to the alignment, so bodies must tolerate a padded end."""
    length = sum(map(len, body))
    padding = -(length + OVERHEAD) % ALIGN
    head = _HEAD.pack(length + padding + 4, _MAGIC, VERSION, kind)
    crc = crc32(head)
    for part in body:
        crc = crc32(part, crc)
    if padding:
        crc = crc32(fill * padding, crc)
    tail = fill * padding + _U32.pack(crc)
    return Encoded([head, *body, tail], OVERHEAD + length + padding, crc)


def read_frame(data: memoryview, start: int) -> Frame | Outcome:
    """Return the frame at `start`, or why there is none."""
    size = len(data)
    if start + OVERHEAD > size:
        return Outcome.NEED_MORE
    length, magic, version, kind = _HEAD.unpack_from(data, start)
    if length == 0:
        return Outcome.NEED_MORE
    if magic != _MAGIC or (length + 8) % ALIGN:
        return Outcome.CORRUPT
    end = start + length + 8
    if end > size:
        return Outcome.NEED_MORE
    (crc,) = _U32.unpack_from(data, end - 4)
    if crc32(data[start : end - 4]) != crc:
        return Outcome.CORRUPT
    return Frame(start, end, kind, version, crc)


def size_at(data: memoryview, start: int) -> int | None:
    """Return how many bytes the frame at `start` has: 0 if its length cannot be read yet, None at the end."""
    if start + 4 > len(data):
        return 0
    (length,) = _U32.unpack_from(data, start)
    return length + 8 if length else None


def scan(data: memoryview, start: int = 0) -> Iterator[Frame | Outcome]:
    """Yield every clean frame from `start` on, and then the outcome that ended the scan."""
    while isinstance(frame := read_frame(data, start), Frame):
        yield frame
        start = frame.end
    yield frame


def next_clean(data: memoryview, start: int) -> Frame | None:
    """Return the first clean frame at or after `start`, whatever stands before it."""
    needle = _MAGIC + bytes([VERSION])
    window = 1 << 20
    position = start + 4
    while position < len(data):
        chunk = bytes(data[position : position + window + len(needle)])
        found = chunk.find(needle)
        while found >= 0:
            candidate = position + found - 4
            if candidate % ALIGN == 0 and isinstance(frame := read_frame(data, candidate), Frame):
                return frame
            found = chunk.find(needle, found + 1)
        position += window
    return None


def check_version(frame: Frame, where: str) -> None:
    if frame.version > VERSION:
        raise LogVersionUnsupported(
            f"{where}, byte {frame.start}: written by a newer version of Frazil (format {frame.version}; this one "
            f"reads up to {VERSION}). Run the newer version, or let it seal the log first."
        )
