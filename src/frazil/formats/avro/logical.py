"""Reads Avro's logical types that need their bytes converted: decimals, UUIDs and durations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.formats.avro.nodes import Build, Node
from frazil.formats.avro.reader import Bools, Ints, Reader, Slots
from frazil.formats.avro.scalars import Binary, array_of, fixed_bytes

MOST_DIGITS = 38
"""The most digits of a decimal that tables can hold."""

DURATION = pa.struct([(part, pa.uint32()) for part in ("months", "days", "milliseconds")])

_WIDTH = 16
_MOST_BYTES = 64
"""The most bytes of a decimal. Further bytes could only repeat its sign."""
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_UUID_LENGTH = 36
_DASHES = (8, 13, 18, 23)
_DIGITS = [place for place in range(_UUID_LENGTH) if place not in _DASHES]


class Decimal(Node):
    """Reads a decimal from big-endian bytes: as many as it needs, or as many as the schema says."""

    def __init__(self, path: str, inner: Node, precision: int, scale: int) -> None:
        super().__init__(path)
        self.kind = pa.decimal128(precision, scale)
        self.least, self.room, self.size = inner.least, inner.room, inner.size
        self._inner = inner
        largest = 10**precision - 1
        self._largest = np.int64(largest >> 64), np.uint64(largest & (2**64 - 1))
        self._smallest = np.int64(-largest >> 64), np.uint64(-largest & (2**64 - 1))

    def read(self, reader: Reader, slots: Slots) -> Build:
        if isinstance(self._inner, Binary):
            starts, ends = reader.extents(slots, self.path)
        else:
            starts = reader.starts(slots, self.least, self.path)
            ends = starts + self.least
        high, low, wrong = _numbers(reader, starts, ends)
        wrong |= (high > self._largest[0]) | ((high == self._largest[0]) & (low > self._largest[1]))
        wrong |= (high < self._smallest[0]) | ((high == self._smallest[0]) & (low < self._smallest[1]))
        if wrong.any():
            reader.fail(slots, wrong, f"{self.path} has more digits than its precision allows")
        return lambda: array_of(self.kind, np.stack([low.view(np.int64), high], axis=1))

    def step(self, data: memoryview, pos: int) -> int:
        return self._inner.step(data, pos)


def _numbers(
    reader: Reader, starts: Ints, ends: Ints
) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.uint64]], Bools]:
    """Returns the upper and the lower 64 bits of each number, and which numbers need more."""
    lengths = ends - starts
    wrong = lengths > _MOST_BYTES
    low = _word_before(reader, ends, lengths)
    high = low >> 63
    if len(lengths) and lengths.max() > 8:
        long = np.flatnonzero(lengths > 8)
        high[long] = _word_before(reader, ends[long] - 8, lengths[long] - 8)
        for extra in range(_WIDTH, min(int(lengths.max()), _MOST_BYTES)):
            more = np.flatnonzero((lengths > extra) & ~wrong)
            sign = (high[more] >> 63).astype(np.uint8)
            wrong[more] |= reader.data[ends[more] - extra - 1] != sign
    return high, low.view(np.uint64), wrong


def _word_before(reader: Reader, ends: Ints, lengths: Ints) -> Ints:
    """Returns the last eight bytes, or as many as there are, as a signed number."""
    words = reader.words[ends - 8].byteswap().view(np.int64)
    unused = (8 - np.clip(lengths, 1, 8)) * 8
    found: Ints = (words << unused) >> unused
    found[lengths == 0] = 0
    return found


def uuid_texts(reader: Reader, starts: Ints, size: int) -> pa.Array:
    """Returns UUIDs as text with dashes."""
    texts = np.full((len(starts), _UUID_LENGTH), ord("-"), np.uint8)
    texts[:, _DIGITS] = _HEX[fixed_bytes(reader, starts, size)].reshape(len(starts), 2 * size)
    borders = np.arange(0, _UUID_LENGTH * (len(starts) + 1), _UUID_LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(starts), [None, pa.py_buffer(borders), pa.py_buffer(texts)])


def durations(reader: Reader, starts: Ints, size: int) -> pa.Array:
    numbers = reader.view("<u4")
    parts = [array_of(pa.uint32(), numbers[starts + offset]) for offset in (0, 4, 8)]
    return pa.StructArray.from_arrays(parts, fields=list(DURATION))
