"""Converts keys of records to bytes and hashes them, one key or a whole column at a time.

The hash is our own because both ways must agree, and because a lookup must not enter a library's thread pool. It only
narrows down the search: keys that were found are always compared.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from frazil.formats import kafka

Words = npt.NDArray[np.uint64]

LONGEST = 256
"""Longer keys are rare, and are hashed one by one."""
_BITS = (1 << 64) - 1
_FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""These multipliers are odd numbers whose bits look random."""
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)


def key_column(schema: pa.Schema, configured: str | None) -> str | None:
    """Returns the column of the log that has the keys of a topic, or None."""
    if kafka.is_kafka(schema):
        return kafka.KEY
    if configured is None or configured not in schema.names:
        return None
    return None if types.is_nested(schema.field(configured).type) else configured


def as_bytes(column: pa.Array) -> pa.Array:
    """Converts keys to binary: bytes stay as they are, text becomes UTF-8, other values become the text Arrow
    writes."""
    if types.is_binary(column.type):
        return column
    if types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    return column.cast(pa.string()).cast(pa.binary())


def hash_key(key: bytes) -> int:
    """Returns a hash of 32 bits."""
    mixed = len(key) * _FIRST & _BITS
    if len(key) > LONGEST:
        mixed ^= zlib.crc32(key)
    else:
        for at in range(0, len(key), 8):
            mixed = (mixed ^ int.from_bytes(key[at : at + 8], "little")) * _SECOND & _BITS
            mixed ^= mixed >> 32
    return (mixed * _FIRST & _BITS) >> 32


def hash_keys(keys: pa.Array) -> Words:
    """Hashes all values of a binary array like `hash_key`. The results for nulls are meaningless."""
    _, offsets_buffer, data = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if data is not None:
        padded[:-8] = np.frombuffer(data, np.uint8)[first:last]
    # This views the eight bytes at each position as one number.
    words: Words = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    starts = (offsets[:-1] - first).astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    mixed = lengths.astype(np.uint64) * np.uint64(_FIRST)
    for at in range(0, min(int(lengths.max(initial=0)), LONGEST), 8):
        here: Any = np.flatnonzero((lengths > at) & (lengths <= LONGEST))
        word = words[starts[here] + at] & _MASKS[np.minimum(lengths[here] - at, 8)]
        x = (mixed[here] ^ word) * np.uint64(_SECOND)
        mixed[here] = x ^ (x >> np.uint64(32))
    for i in np.flatnonzero(lengths > LONGEST):
        mixed[i] ^= np.uint64(zlib.crc32(padded[starts[i] : starts[i] + lengths[i]].data))
    return (mixed * np.uint64(_FIRST)) >> np.uint64(32)
