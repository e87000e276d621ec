"""Aggregates series at each step, in groups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from frazil.query.logql.columns import Mask
from frazil.query.logql.metrics.matrix import (
    Floats,
    Matrix,
    SeriesLabels,
    labels_by,
    labels_without,
    numbered,
)
from frazil.query.logql.parse.metric_tree import Grouping, VectorAggregation

_CHOOSING = ("topk", "bottomk", "approx_topk")


def aggregate(node: VectorAggregation, matrix: Matrix) -> Matrix:
    if node.operation in ("sort", "sort_desc"):
        return matrix
    keys = [group_of(labels, node.grouping) for labels in matrix.series]
    groups, group_keys = numbered(keys)
    if node.operation in _CHOOSING:
        return _chosen(matrix, groups, len(group_keys), node.parameter or 0, largest=node.operation != "bottomk")
    if not group_keys:
        return matrix
    order = np.argsort(groups, kind="stable")
    firsts = np.searchsorted(groups[order], np.arange(len(group_keys)))
    values, present = matrix.values[order], matrix.present[order]
    counts = np.add.reduceat(present.astype(np.float64), firsts, axis=0)
    with np.errstate(all="ignore"):
        made = _FUNCTIONS[node.operation](values, present, firsts, counts, groups[order])
    return Matrix(group_keys, made, counts > 0)


def group_of(labels: SeriesLabels, grouping: Grouping | None) -> SeriesLabels:
    """Returns the labels of the group that a series belongs to."""
    if grouping is None:
        return ()
    names = frozenset(grouping.labels)
    return labels_without(labels, names) if grouping.without else labels_by(labels, names)


_Groups = NDArray[np.intp]


def _sum(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    return np.asarray(np.add.reduceat(np.where(present, values, 0.0), firsts, axis=0))


def _mean(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    return _sum(values, present, firsts, counts, groups) / np.maximum(counts, 1)


def _min(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    return np.asarray(np.fmin.reduceat(np.where(present, values, np.nan), firsts, axis=0))


def _max(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    return np.asarray(np.fmax.reduceat(np.where(present, values, np.nan), firsts, axis=0))


def _count(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    return counts


def _variance(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    means = _mean(values, present, firsts, counts, groups)
    distances = values - means[groups]
    # One value alone does not vary, whatever it is.
    return np.where(counts == 1, 0.0, _mean(distances * distances, present, firsts, counts, groups))


def _deviation(values: Floats, present: Mask, firsts: _Groups, counts: Floats, groups: _Groups) -> Floats:
    return np.asarray(np.sqrt(_variance(values, present, firsts, counts, groups)))


_FUNCTIONS: dict[str, Callable[[Floats, Mask, _Groups, Floats, _Groups], Floats]] = {
    "sum": _sum,
    "avg": _mean,
    "min": _min,
    "max": _max,
    "count": _count,
    "stddev": _deviation,
    "stdvar": _variance,
}


def _chosen(matrix: Matrix, groups: _Groups, count: int, most: int, *, largest: bool) -> Matrix:
    """Keeps the largest or smallest samples of each group at each step. NaN comes after all others."""
    kept = np.zeros_like(matrix.present)
    for group in range(count):
        rows = np.flatnonzero(groups == group)
        values = matrix.values[rows]
        keys = np.where(np.isnan(values), 0.0, -values if largest else values)
        worth = np.where(matrix.present[rows], np.isnan(values).astype(np.int8), 2)
        order = np.lexsort((keys, worth), axis=0)[:most]
        best = np.zeros(values.shape, np.bool_)
        np.put_along_axis(best, order, True, axis=0)
        kept[rows] = best & matrix.present[rows]
    return matrix.filtered(kept)


def sorted_by_value(matrix: Matrix, *, descending: bool) -> Matrix:
    """Orders the series of an instant result; NaN comes last."""
    values = matrix.values[:, 0]
    keys = np.where(np.isnan(values), 0.0, -values if descending else values)
    return matrix.rows(np.lexsort((keys, np.isnan(values))))
