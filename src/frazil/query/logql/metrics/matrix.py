"""Has series of samples at the steps of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.query.logql.columns import Mask
from frazil.query.logql.go_numbers import quoted

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
SeriesLabels = tuple[tuple[str, str], ...]
"""Names and values of one series, sorted by name."""


@dataclass(frozen=True)
class Matrix:
    """Has a row for each series and a column for each step; where `present` is false there is no sample."""

    series: list[SeriesLabels]
    values: Floats
    present: Mask

    def filtered(self, present: Mask) -> Matrix:
        return Matrix(self.series, self.values, present)

    def rows(self, chosen: NDArray[np.intp] | Sequence[int]) -> Matrix:
        numbers = np.asarray(chosen, np.intp)
        return Matrix([self.series[number] for number in numbers], self.values[numbers], self.present[numbers])

    def without_empty(self) -> Matrix:
        """Leaves out series without a sample."""
        kept = np.flatnonzero(self.present.any(axis=1))
        return self if len(kept) == len(self.series) else self.rows(kept)


def empty_matrix(steps: int) -> Matrix:
    return Matrix([], np.zeros((0, steps)), np.zeros((0, steps), np.bool_))


def one_series(value: float, steps: int) -> Matrix:
    return Matrix([()], np.full((1, steps), value), np.ones((1, steps), np.bool_))


def labels_by(labels: SeriesLabels, names: frozenset[str]) -> SeriesLabels:
    return tuple(each for each in labels if each[0] in names)


def labels_without(labels: SeriesLabels, names: frozenset[str]) -> SeriesLabels:
    """Leaves out these labels, and as Loki does those that are empty."""
    return tuple(each for each in labels if each[0] not in names and each[1])


def numbered(keys: Iterable[SeriesLabels]) -> tuple[NDArray[np.intp], list[SeriesLabels]]:
    """Returns for each key the number of its group, and the keys of the groups."""
    numbers: dict[SeriesLabels, int] = {}
    found = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.intp)
    return found, list(numbers)


def merged(matrix: Matrix) -> Matrix:
    """Makes one series of those with the same labels. Where several have a sample, the last one counts."""
    groups, keys = numbered(matrix.series)
    if len(keys) == len(matrix.series):
        return matrix
    values = np.zeros((len(keys), matrix.values.shape[1]))
    present = np.zeros(values.shape, np.bool_)
    for row, group in enumerate(groups):
        values[group] = np.where(matrix.present[row], matrix.values[row], values[group])
        present[group] |= matrix.present[row]
    return Matrix(keys, values, present)


def printed_labels(labels: SeriesLabels) -> str:
    """Returns the labels as messages show them: `{app="shop", level="info"}`."""
    return "{" + ", ".join(f"{name}={quoted(value)}" for name, value in labels) + "}"
