"""Groups equal rows, consecutive or not, so that what they share is computed once."""

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
    """The index of the run of each row."""

    @property
    def lengths(self) -> Ints:
        return np.diff(self.first, append=len(self.places))


def runs_of(codes: Ints) -> Runs:
    """Returns the runs of consecutive rows with the same code."""
    begins = np.ones(len(codes), bool)
    np.not_equal(codes[1:], codes[:-1], out=begins[1:])
    return Runs(np.flatnonzero(begins), np.cumsum(begins) - 1)


class Distinct(NamedTuple):
    first: Ints
    """The first row of each group."""
    places: Ints
    """The index of the group of each row."""


def distinct(*columns: Ints) -> Distinct:
    """Groups rows that have the same number in every column. The first column has no negative numbers."""
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
    """Returns a number for each value; equal values, and nulls, have the same one."""
    found: Ints = values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return found
