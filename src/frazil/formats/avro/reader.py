"""Reads Avro's binary encoding from many records at once: each record has a cursor, and the same kernels move all of
them.

The encoding has no lengths to jump by, so a field can only be found by reading the one before it. But it is the same
field in every record. Where another reader goes record by record, this one goes field by field over all records.

A cursor that meets something wrong is moved behind all records, where there are only zeros. Whatever is read there is
short and harmless, so the other cursors go on as if nothing had happened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

BEFORE = 16
"""The number of bytes before the records, so that a word which ends at the first byte can be read."""

AFTER = 32
"""The least number of zeros behind the records: what one number can take, and a word beyond it."""

NOWHERE = np.int64(2**62)
"""The end of records that failed: no position ever passes it."""

_MORE = np.uint64(0x8080808080808080)
_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
# The low seven bits of each byte are packed together in three steps: into pairs, fours and eights.
_PACK = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ONE = np.uint64(1)
_ZIGZAG = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)


class Slots:
    """The values that are read next: where each begins, where its record ends, and which record that is."""

    __slots__ = ("end", "pos", "row")

    def __init__(self, pos: Ints, end: Ints, row: Ints) -> None:
        self.pos = pos
        self.end = end
        self.row = row

    def __len__(self) -> int:
        return len(self.pos)

    def at(self, places: Ints) -> Slots:
        """Returns a copy of some slots; moving them does not move the originals."""
        return Slots(self.pos[places], self.end[places], self.row[places])


class Reader:
    """Holds the bytes of some records, and what is wrong with them."""

    def __init__(self, data: Bytes, starts: Ints, ends: Ints, spare: int) -> None:
        """`spare` is the number of zeros behind the records: as many as reading a value of zeros can take."""
        first = int(starts.min()) if len(starts) else 0
        last = int(ends.max()) if len(ends) else 0
        self.data = np.zeros(BEFORE + last - first + spare + AFTER, np.uint8)
        self.data[BEFORE : BEFORE + last - first] = data[first:last]
        self.words: Words = self.view("<u8")
        """The eight bytes that begin at each byte, as a number."""
        self.reasons: dict[int, str] = {}
        """The records that cannot be read, each with the reason."""
        self._zeros = BEFORE + last - first
        self._failed = np.zeros(len(starts), np.bool_)
        self._shift = BEFORE - first
        self._starts, self._ends = starts, ends

    def slots(self) -> Slots:
        """Returns a slot for each record."""
        return Slots(self._starts + self._shift, self._ends + self._shift, np.arange(len(self._starts)))

    def view(self, kind: str) -> npt.NDArray[Any]:
        """Returns the number of this type that begins at each byte."""
        size = np.dtype(kind).itemsize
        return np.ndarray((len(self.data) - size + 1,), kind, self.data, strides=(1,))

    def fail(self, slots: Slots, which: Bools, reason: str) -> None:
        """Marks values, and the records that contain them, as faulty."""
        slots.pos[which] = self._zeros
        slots.end[which] = NOWHERE
        self.fail_rows(slots.row[which], reason)

    def fail_rows(self, rows: Ints, reason: str) -> None:
        new = np.unique(rows[~self._failed[rows]])
        self._failed[new] = True
        self.reasons.update(dict.fromkeys(new.tolist(), reason))

    def finish(self, slots: Slots) -> None:
        """Marks records as faulty that have bytes left after the last field."""
        left = (slots.pos != slots.end) & (slots.end != NOWHERE)
        if left.any():
            self.fail(slots, left, "it has more bytes than its schema says")

    def longs(self, slots: Slots, path: str) -> Ints:
        """Reads the next number at each slot."""
        first = self.data[slots.pos]
        if not len(first) or first.max() < 0x80:
            slots.pos += 1
            values = _ZIGZAG[first]
        else:
            values = self._long_longs(slots, path)
        over = slots.pos > slots.end
        if over.any():
            self.fail(slots, over, f"it ends within {path}")
            values[over] = 0
        return values

    def extents(self, slots: Slots, path: str) -> tuple[Ints, Ints]:
        """Reads the next byte string at each slot; returns where it starts and ends."""
        lengths = self.longs(slots, path)
        wrong = (lengths < 0) | (lengths > slots.end - slots.pos)
        if wrong.any():
            self.fail(slots, wrong, f"{path} has an impossible length")
            lengths[wrong] = 0
        starts = slots.pos.copy()
        slots.pos += lengths
        return starts, slots.pos.copy()

    def starts(self, slots: Slots, size: int, path: str) -> Ints:
        """Returns where the next `size` bytes of each slot begin, and moves behind them."""
        starts = slots.pos.copy()
        slots.pos += size
        over = slots.pos > slots.end
        if over.any():
            self.fail(slots, over, f"it ends within {path}")
            starts[over] = self._zeros
        return starts

    def _long_longs(self, slots: Slots, path: str) -> Ints:
        words = self.words[slots.pos]
        stops = ~words & _MORE
        # These are all bits up to the first byte that ends a number, or all bits if none ends within eight bytes.
        own = stops ^ (stops - _ONE)
        lengths = (np.bitwise_count(own) >> 3).astype(np.int64)
        longest = int(lengths.max())
        values: Words = words & own & _BITS
        for step, (low, high, shift) in enumerate(_PACK):
            if longest > 1 << step:
                values = (values & low) | ((values & high) >> shift)
        if longest == 8:
            longer = np.flatnonzero(stops == 0)
            if len(longer):
                self._longest(slots, longer, values, lengths, path)
        slots.pos += lengths
        return ((values >> _ONE) ^ (np.uint64(0) - (values & _ONE))).view(np.int64)

    def _longest(self, slots: Slots, longer: Ints, values: Words, lengths: Ints, path: str) -> None:
        """Completes numbers of nine and ten bytes."""
        ninth = self.data[slots.pos[longer] + 8].astype(np.uint64)
        tenth = self.data[slots.pos[longer] + 9].astype(np.uint64)
        is_ten = ninth >= 0x80
        tenth[~is_ten] = 0
        values[longer] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (tenth << np.uint64(63))
        lengths[longer] = np.where(is_ten, 10, 9)
        if (tenth > 1).any():
            wrong = np.zeros(len(slots), np.bool_)
            wrong[longer] = tenth > 1
            self.fail(slots, wrong, f"{path} has a number of more than 64 bits")
            lengths[wrong] = 0
            values[wrong] = 0
