"""Defines what expressions evaluate to: a matrix of series and steps, with floats and histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import LabelTable, Rows, concatenate

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Cells = npt.NDArray[Any]
RESERVED = ("__name__", "__type__", "__unit__")
SAME_LABELS = "vector cannot contain metrics with the same labelset"
_filled = np.frompyfunc(lambda cell: cell is not None, 1, 1)


def filled(cells: Cells) -> Mask:
    """Says which cells have a histogram."""
    return np.asarray(_filled(cells), bool) if cells.size else np.zeros(cells.shape, bool)


@dataclass(frozen=True)
class Matrix:
    """Is an instant vector at every step. A cell has a float, a histogram, or nothing."""

    labels: LabelTable
    values: Floats
    present: Mask
    """Where a float is; elsewhere `values` has anything."""
    cells: Cells | None = None
    """Histograms, None where there is none; None altogether if there are none at all."""
    dropped: Mask | None = None
    """Series whose name is to go at the very end; None: no series."""

    @cached_property
    def histograms(self) -> Mask:
        if self.cells is None:
            return np.zeros(self.present.shape, bool)
        return filled(self.cells)

    @cached_property
    def mask(self) -> Mask:
        """Where anything is."""
        return self.present if self.cells is None else self.present | self.histograms

    @property
    def size(self) -> int:
        return self.labels.size

    @property
    def steps(self) -> int:
        return int(self.values.shape[1])

    @property
    def dropping(self) -> Mask:
        return np.zeros(self.size, bool) if self.dropped is None else self.dropped

    def take(self, rows: Rows) -> Matrix:
        cells = None if self.cells is None else self.cells[rows]
        dropped = None if self.dropped is None else self.dropped[rows]
        return Matrix(self.labels.take(rows), self.values[rows], self.present[rows], cells, dropped)

    def where(self, wanted: Mask) -> Matrix:
        """Keeps some of the cells, and the series that have any left."""
        cells = None
        if self.cells is not None:
            cells = only(self.cells, wanted)
        return replace(self, present=self.present & wanted, cells=cells).without_empty()

    def without_empty(self) -> Matrix:
        rows = self.mask.any(axis=1)
        return self if rows.all() else self.take(np.flatnonzero(rows))

    def floats_only(self) -> Matrix:
        return self if self.cells is None else replace(self, cells=None)

    def repeat(self, steps: int) -> Matrix:
        """Returns the one step that this has, as often as wanted."""
        shape = (self.size, steps)
        cells = None if self.cells is None else np.broadcast_to(self.cells, shape)
        return Matrix(
            self.labels,
            np.broadcast_to(self.values, shape),
            np.broadcast_to(self.present, shape),
            cells,
            self.dropped,
        )

    def with_labels(self, labels: LabelTable) -> Matrix:
        return replace(self, labels=labels)


def empty_matrix(steps: int) -> Matrix:
    return Matrix(LabelTable(0, {}), np.empty((0, steps)), np.zeros((0, steps), bool))


def stack(parts: Sequence[Matrix], steps: int) -> Matrix:
    """Returns the series of several matrices, one below the other."""
    parts = [part for part in parts if part.size]
    if not parts:
        return empty_matrix(steps)
    if len(parts) == 1:
        return parts[0]
    cells = None
    if any(part.cells is not None for part in parts):
        cells = np.concatenate([empty_cells(p.values.shape) if p.cells is None else p.cells for p in parts])
    dropped = None
    if any(part.dropped is not None for part in parts):
        dropped = np.concatenate([part.dropping for part in parts])
    return Matrix(
        concatenate([part.labels for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.present for part in parts]),
        cells,
        dropped,
    )


def only(cells: Cells, wanted: Mask) -> Cells:
    """Returns the histograms of some cells."""
    found = empty_cells(cells.shape)
    found[wanted] = cells[wanted]
    return found


def empty_cells(shape: tuple[int, ...]) -> Cells:
    return np.full(shape, None, object)


def drop_names(matrix: Matrix, delayed: bool, names: Iterable[str] = RESERVED) -> Matrix:
    """Drops the metric names: now, or by a mark when they go at the very end."""
    if delayed:
        return replace(matrix, dropped=np.ones(matrix.size, bool))
    return matrix.with_labels(matrix.labels.drop(names))


def finish_names(matrix: Matrix) -> Matrix:
    """Carries out the marks of `drop_names`, and joins series that are the same then."""
    if matrix.dropped is None or not matrix.dropped.any():
        return merge_same(replace(matrix, dropped=None))
    labels = matrix.labels.drop_where(RESERVED, matrix.dropped)
    return merge_same(replace(matrix, labels=labels, dropped=None))


def merge_same(matrix: Matrix) -> Matrix:
    """Joins series with equal labels; an error if two of them have a sample at the same step."""
    keys = matrix.labels.keys()
    unique, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(unique) == matrix.size:
        return matrix
    group = group.reshape(-1)
    counts = np.zeros((len(unique), matrix.steps), np.int64)
    np.add.at(counts, group, matrix.mask)
    if (counts > 1).any():
        raise ExecutionError(SAME_LABELS)
    merged = matrix.take(first)
    values, present = merged.values.copy(), merged.present.copy()
    cells = None if merged.cells is None else merged.cells.copy()
    is_first = np.zeros(matrix.size, bool)
    is_first[first] = True
    for row in np.flatnonzero(~is_first):
        at, mask = group[row], matrix.mask[row]
        values[at][mask] = matrix.values[row][mask]
        present[at] |= matrix.present[row]
        if cells is not None and matrix.cells is not None:
            cells[at][mask] = matrix.cells[row][mask]
    found = Matrix(merged.labels, values, present, cells, merged.dropped)
    return found.take(np.argsort(first, kind="stable"))


def fail_on_same(labels: LabelTable) -> None:
    """Raises an error if two series have equal labels."""
    if labels.size > 1 and len(np.unique(labels.keys())) < labels.size:
        raise ExecutionError(SAME_LABELS)
