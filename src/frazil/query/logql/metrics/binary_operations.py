"""Combines series of two sides, or series and a number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from frazil.errors import QueryError
from frazil.query.logql.arithmetic import OPERATIONS
from frazil.query.logql.columns import Mask
from frazil.query.logql.metrics.matrix import (
    Matrix,
    SeriesLabels,
    empty_matrix,
    labels_by,
    labels_without,
    merged,
    numbered,
)
from frazil.query.logql.parse.metric_tree import COMPARISONS, BinaryOperation, VectorMatching

_MANY_TO_ONE = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
_NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"


def with_number(node: BinaryOperation, matrix: Matrix, number: float, *, number_is_left: bool) -> Matrix:
    """Applies the operation to each sample. A comparison keeps samples for which it holds."""
    operation = OPERATIONS[node.operator]
    with np.errstate(all="ignore"):
        left, right = (np.float64(number), matrix.values) if number_is_left else (matrix.values, np.float64(number))
        result = operation(left, right)
    if node.operator not in COMPARISONS:
        return Matrix(matrix.series, result, matrix.present)
    if node.return_bool:
        return Matrix(matrix.series, result.astype(np.float64), matrix.present)
    return matrix.filtered(matrix.present & result)


def combine(node: BinaryOperation, left: Matrix, right: Matrix) -> Matrix:
    groups = _Groups(left, right, node.matching)
    match node.operator:
        case "and":
            return left.filtered(left.present & groups.right_present()[groups.left])
        case "unless":
            return left.filtered(left.present & ~groups.right_present()[groups.left])
        case "or":
            lacking = right.filtered(right.present & ~groups.left_present()[groups.right])
            both = Matrix(
                left.series + right.series,
                np.concatenate([left.values, lacking.values]),
                np.concatenate([left.present, lacking.present]),
            )
            return merged(both)
    return _matched(node, left, right, groups)


class _Groups:
    """Numbers the groups of series that belong together."""

    def __init__(self, left: Matrix, right: Matrix, matching: VectorMatching | None) -> None:
        self.matching = matching
        keys = [self.key(labels) for labels in left.series + right.series]
        numbers, self.keys = numbered(keys)
        self.left, self.right = numbers[: len(left.series)], numbers[len(left.series) :]
        self._left, self._right = left, right

    def key(self, labels: SeriesLabels) -> SeriesLabels:
        if self.matching is None:
            return _filled(labels)
        names = frozenset(self.matching.labels)
        return _filled(labels_by(labels, names)) if self.matching.on else labels_without(labels, names)

    def left_present(self) -> Mask:
        return self._counts(self._left, self.left) > 0

    def right_present(self) -> Mask:
        return self._counts(self._right, self.right) > 0

    def _counts(self, matrix: Matrix, groups: NDArray[np.intp]) -> NDArray[np.int64]:
        counts = np.zeros((len(self.keys), matrix.values.shape[1]), np.int64)
        np.add.at(counts, groups, matrix.present)
        return counts

    def single(self, matrix: Matrix, groups: NDArray[np.intp], side: str) -> Matrix:
        """Returns the one series of each group, as far as it has one at each step."""
        if (self._counts(matrix, groups) > 1).any():
            raise QueryError(
                f"found duplicate series on the {side} hand-side;many-to-many matching not allowed: "
                "matching labels must be unique on one side"
            )
        values = np.zeros((len(self.keys), matrix.values.shape[1]))
        np.add.at(values, groups, np.where(matrix.present, matrix.values, 0.0))
        present = np.zeros(values.shape, np.bool_)
        np.logical_or.at(present, groups, matrix.present)
        return Matrix(self.keys, values, present)


def _matched(node: BinaryOperation, left: Matrix, right: Matrix, groups: _Groups) -> Matrix:
    grouped = node.matching.many if node.matching else ""
    if grouped == "right":
        many, one, of_many, of_one = right, left, groups.right, groups.left
    else:
        many, one, of_many, of_one = left, right, groups.left, groups.right
    singles = groups.single(one, of_one, "left" if grouped == "right" else "right")
    if not many.series or not one.series:
        return empty_matrix(left.values.shape[1])
    ones, ones_present = singles.values[of_many], singles.present[of_many]
    both = many.present & ones_present
    if not grouped:
        _check_one_to_one(groups, of_many, both)
    left_values, right_values = (ones, many.values) if grouped == "right" else (many.values, ones)
    with np.errstate(all="ignore"):
        result = OPERATIONS[node.operator](left_values, right_values)
    present = both
    if node.operator in COMPARISONS:
        if node.return_bool:
            result = result.astype(np.float64)
        else:
            present, result = both & result, left_values
    labels = _result_labels(groups, many, of_many, one, of_one, both)
    return _unique(Matrix(labels, result, present), both)


def _check_one_to_one(groups: _Groups, of_many: NDArray[np.intp], both: Mask) -> None:
    counts = np.zeros((len(groups.keys), both.shape[1]), np.int64)
    np.add.at(counts, of_many, both)
    if (counts > 1).any():
        raise QueryError(_MANY_TO_ONE)


def _result_labels(
    groups: _Groups,
    many: Matrix,
    of_many: NDArray[np.intp],
    one: Matrix,
    of_one: NDArray[np.intp],
    both: Mask,
) -> list[SeriesLabels]:
    matching = groups.matching
    if matching is None or not matching.many:
        return [groups.keys[group] for group in of_many]
    if not matching.included:
        return many.series
    included = frozenset(matching.included)
    of_group = {int(group): labels for group, labels in zip(of_one, one.series, strict=True)}
    found: list[SeriesLabels] = []
    for labels, group in zip(many.series, of_many, strict=True):
        added = _filled(labels_by(of_group.get(int(group), ()), included))
        found.append(tuple(sorted(labels_without(labels, included) + added)))
    return found


def _filled(labels: SeriesLabels) -> SeriesLabels:
    return tuple(each for each in labels if each[1])


def _unique(matrix: Matrix, both: Mask) -> Matrix:
    numbers, keys = numbered(matrix.series)
    if len(keys) < len(matrix.series):
        counts = np.zeros((len(keys), matrix.values.shape[1]), np.int64)
        np.add.at(counts, numbers, both)
        if (counts > 1).any():
            raise QueryError(_NOT_UNIQUE)
    return merged(matrix)
