"""Computes how many rows fit into a number of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from frazil.config.sections.section import MIB

ANSWER_BYTES = 64 * MIB
"""The rows of one answer have at most this size, unless a single one is larger: they are also in memory as text."""

Rows: TypeAlias = pa.RecordBatch | pa.Table


def first_within(rows: Rows, nbytes: int) -> int:
    """Return how many of the first rows have at most so many bytes together."""
    return _within(rows, nbytes, lambda count: rows.slice(0, count).nbytes)


def last_within(rows: Rows, nbytes: int) -> int:
    """Return how many of the last rows have at most so many bytes together."""
    return _within(rows, nbytes, lambda count: rows.slice(len(rows) - count).nbytes)


def _within(rows: Rows, nbytes: int, size: Callable[[int], int]) -> int:
    if rows.nbytes <= nbytes:
        return len(rows)
    return bisect_right(range(1, len(rows) + 1), nbytes, key=size)
