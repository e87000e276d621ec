"""Rows that follow each other and are alike: what is the same for them is worked out once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


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
