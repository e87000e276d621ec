"""Computes CRC-32C, which frames of remote read have."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78
_LANE = 1024
_ALL = 0xFFFFFFFF


@lru_cache(1)
def _table() -> npt.NDArray[np.uint32]:
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = np.where(found & 1, (found >> 1) ^ np.uint32(_POLYNOMIAL), found >> 1).astype(np.uint32)
    return found


@lru_cache(1)
def _lane_tables() -> list[list[int]]:
    """Returns what each byte of a checksum becomes when a lane of zeros follows."""
    start = (np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32)[:, None])).astype(
        np.uint32
    )
    found = start.reshape(-1)
    table = _table()
    for _ in range(_LANE):
        found = table[found & 0xFF] ^ (found >> 8)
    return [row.tolist() for row in found.reshape(4, 256)]


def crc32c(data: bytes) -> int:
    """Returns the checksum. Lanes of the data are worked on side by side, and then put together."""
    table = _table()
    lanes = len(data) // _LANE
    crc = _ALL
    if lanes:
        block = np.frombuffer(data, np.uint8, lanes * _LANE).reshape(lanes, _LANE)
        parts = np.zeros(lanes, np.uint32)
        for column in block.T:
            parts = table[(parts ^ column) & 0xFF] ^ (parts >> 8)
        first, second, third, fourth = _lane_tables()
        for part in parts.tolist():
            crc = first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24] ^ part
    rest = table.tolist()
    for byte in data[lanes * _LANE :]:
        crc = rest[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ _ALL
