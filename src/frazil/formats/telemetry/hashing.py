"""Hashes texts to 64 bits, a whole column at once or one at a time. The hashes never change.

They are stored in tables, so nothing here may change, and no library's hash would do. A hash is the sum over each
eight bytes, mixed with their position, so numpy computes it without a loop.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]

BITS = (1 << 64) - 1
FACTOR = 0x9E3779B97F4A7C15
_SECOND, _THIRD = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Odd multipliers whose bits look random."""
_MASKS = np.array([BITS, *((1 << 8 * n) - 1 for n in range(1, 8))], np.uint64)
"""Masks for the last eight bytes of a text, by its length modulo 8."""


def mix(number: int) -> int:
    """Returns a number each bit of which depends on all bits of the given one."""
    number = (number ^ number >> 30) * _SECOND & BITS
    number = (number ^ number >> 27) * _THIRD & BITS
    return number ^ number >> 31


def mix_all(numbers: Words) -> Words:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_SECOND)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(_THIRD)
    return numbers ^ (numbers >> np.uint64(31))


def hash_text(text: str) -> int:
    """Returns the hash of a text; that of an empty text is 0."""
    data = text.encode()
    found = len(data)
    for at in range(0, len(data), 8):
        found += mix(int.from_bytes(data[at : at + 8], "little") + (at // 8 + 1) * FACTOR & BITS)
    return found & BITS


def hash_texts(texts: pa.StringArray) -> Words:
    """Returns the `hash_text` of all values; null counts as an empty text."""
    _, offsets_buffer, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(len(texts), np.uint64)
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    padded[:-8] = np.frombuffer(data, np.uint8)[first:last]
    # Every eight consecutive bytes, at any position, are viewed as one number.
    eights: Words = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    lengths = np.diff(offsets).astype(np.int64)
    if texts.null_count:
        lengths[np.asarray(texts.is_null())] = 0
    sizes = (lengths + 7) >> 3
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    words = eights[np.repeat(offsets[:-1] - first, sizes) + 8 * places]
    filled = np.flatnonzero(sizes)
    words[ends[filled] - 1] &= _MASKS[lengths[filled] & 7]
    sums = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(mix_all(words + (places + 1).astype(np.uint64) * np.uint64(FACTOR)), out=sums[1:])
    found: Words = sums[ends] - sums[ends - sizes] + lengths.astype(np.uint64)
    return found
