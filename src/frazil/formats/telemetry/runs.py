"""Rows that are alike, wherever they are or one after the other: what is the same for them is worked out once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
_MOST_CODES = 2**62


class Runs(NamedTuple):
    first: Ints
    """The first row of each run."""
    places: Ints
    """Which run each row is of."""

    @property
    def lengths(self) -> Ints:
        return np.diff(self.first, append=len(self.places))


def runs_of(codes: Ints) -> Runs:
    """Rows are alike if they have the same code."""
    begins = np.ones(len(codes), bool)
    np.not_equal(codes[1:], codes[:-1], out=begins[1:])
    return Runs(np.flatnonzero(begins), np.cumsum(begins) - 1)


class Distinct(NamedTuple):
    first: Ints
    """The first row of each kind."""
    places: Ints
    """Of which kind each row is."""


def distinct(*columns: Ints) -> Distinct:
    """Rows are of one kind if they have the same number in each of the columns. None of the first is negative."""
    codes, size = columns[0], int(columns[0].max(initial=0)) + 1
    for column in columns[1:]:
        least, most = int(column.min(initial=0)), int(column.max(initial=0))
        if least == most:
            continue
        width = most - least + 1
        if size * width >= _MOST_CODES:
            codes = np.unique(codes, return_inverse=True)[1]
            size = len(codes)
        codes = codes * width + (column - least)
        size *= width
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    return Distinct(first, places)


def codes_of(values: pa.Array) -> Ints:
    """A number for each value, the same for the same ones, and for null."""
    found: Ints = values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return found
