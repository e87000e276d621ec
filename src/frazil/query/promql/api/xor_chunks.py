"""Encodes samples as the chunks of Prometheus: changes of time and value, bit by bit.

Each value says how many of its bits changed, even where it could refer to the one before it. That costs some bits,
and lets all samples of a chunk be encoded together.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from frazil.query.promql.storage.arrow_columns import Floats, Ints

MOST_SAMPLES = 1000
"""A chunk counts its samples in 16 bits; short ones can be cut more exactly."""
_Words = npt.NDArray[np.uint64]
_CLASSES = ((0, 0b0, 1, 0), (14, 0b10, 2, 14), (17, 0b110, 3, 17), (20, 0b1110, 4, 20), (64, 0b1111, 4, 64))
"""The differences of time: those that fit in so many bits, their prefix with its length, and how many bits follow."""


def xor_chunk(times: Ints, values: Floats) -> bytes:
    """Returns one chunk with up to `MOST_SAMPLES` samples."""
    head = len(times).to_bytes(2, "big") + _signed(int(times[0])) + struct.pack(">d", values[0])
    if len(times) == 1:
        return head
    fields, widths = _changes(times, values)
    second = _unsigned(int(times[1] - times[0]))
    # The second sample has its distance in whole bytes, before the bits of its value.
    bits = _bits(fields, widths)
    return head + second + bytes(np.packbits(bits))


def _changes(times: Ints, values: Floats) -> tuple[_Words, Ints]:
    """Returns the fields of all samples but the first, and how many bits each has."""
    count = len(times) - 1
    fields, widths = np.zeros((count, 6), np.uint64), np.zeros((count, 6), np.int64)
    changes = np.diff(np.diff(times))
    for bits, prefix, prefix_bits, width in reversed(_CLASSES):
        # Of n bits, the values from -(2^(n-1) - 1) to 2^(n-1) are used.
        half = 1 << max(bits - 1, 0)
        fits = (changes >= 1 - half) & (changes <= half) if 0 < bits < 64 else changes == 0 if not bits else True
        at = np.flatnonzero(np.broadcast_to(fits, changes.shape)) + 1
        fields[at, 0], widths[at, 0], widths[at, 1] = prefix, prefix_bits, width
    fields[1:, 1] = changes.view(np.uint64)
    xored = np.ascontiguousarray(values).view(np.uint64)
    xored = xored[1:] ^ xored[:-1]
    changed = xored != 0
    leading = np.minimum(_leading_zeros(xored), 31)
    trailing = _trailing_zeros(xored)
    length = 64 - leading - trailing
    fields[:, 2], widths[:, 2] = np.where(changed, 0b11, 0), np.where(changed, 2, 1)
    fields[:, 3], widths[:, 3] = leading.astype(np.uint64), np.where(changed, 5, 0)
    fields[:, 4], widths[:, 4] = (length % 64).astype(np.uint64), np.where(changed, 6, 0)
    fields[:, 5] = xored >> np.minimum(trailing, 63).astype(np.uint64)
    widths[:, 5] = np.where(changed, length, 0)
    return fields.reshape(-1), widths.reshape(-1)


def _bits(fields: _Words, widths: Ints) -> npt.NDArray[np.uint8]:
    ends = np.cumsum(widths)
    shifts = np.repeat(ends, widths) - np.arange(int(ends[-1])) - 1
    return ((np.repeat(fields, widths) >> shifts.astype(np.uint64)) & np.uint64(1)).astype(np.uint8)


def _leading_zeros(words: _Words) -> Ints:
    found = np.zeros(len(words), np.int64)
    rest = words.copy()
    for width in (32, 16, 8, 4, 2, 1):
        empty = rest >> np.uint64(64 - width) == 0
        found += np.where(empty, width, 0)
        rest = np.where(empty, rest << np.uint64(width), rest)
    return found


def _trailing_zeros(words: _Words) -> Ints:
    found = np.zeros(len(words), np.int64)
    rest = words.copy()
    for width in (32, 16, 8, 4, 2, 1):
        empty = rest & np.uint64((1 << width) - 1) == 0
        found += np.where(empty, width, 0)
        rest = np.where(empty, rest >> np.uint64(width), rest)
    return found


def _unsigned(number: int) -> bytes:
    """Returns a number in groups of seven bits, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _signed(number: int) -> bytes:
    return _unsigned(number << 1 if number >= 0 else (-number << 1) - 1)
