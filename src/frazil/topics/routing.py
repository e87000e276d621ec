"""Decides which partition a message goes to: the one of its key, or each in turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 2**64 - 1


def partition_of(key: str, partitions: int) -> int:
    """Hashes the key with FNV-1a, as Danube's clients do, so that both choose the same partition."""
    value = _OFFSET
    for byte in key.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value % partitions


class PartitionShare(NamedTuple):
    """Has the messages of a batch that go to one partition, in their order."""

    partition: int
    rows: npt.NDArray[np.int64]
    """These are the positions of the messages in the batch."""


def split_by_key(keys: pa.StringArray, partitions: int, otherwise: int) -> list[PartitionShare]:
    """Sends each message to the partition of its key, and all messages without a key to `otherwise`."""
    encoded = pc.dictionary_encode(keys)
    homes = np.array([partition_of(key, partitions) for key in encoded.dictionary.to_pylist()] + [otherwise])
    places = encoded.indices.fill_null(len(homes) - 1).to_numpy(zero_copy_only=False)
    chosen = homes[places]
    return [PartitionShare(int(each), np.flatnonzero(chosen == each)) for each in np.unique(chosen)]
