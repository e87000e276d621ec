"""Evaluates aggregations that choose series or count values: topk, bottomk, limitk, limit_ratio, count_values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation
from frazil.query.promql.evaluation.matrix import Floats, Mask, Matrix, empty_matrix, merge_same
from frazil.query.promql.histograms.text import print_histogram
from frazil.query.promql.operators.aggregate import grouped
from frazil.query.promql.operators.sampling import ratio_offsets
from frazil.query.promql.parse.literals import print_number
from frazil.query.promql.parse.tree import Aggregate, print_shortest
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import Column

LEAST_INTEGER, GREATEST_INTEGER = -(2.0**63), 2.0**63


def checked_counts(parameter: Floats, size: int) -> Floats | None:
    """Returns how many series are wanted at each step; None if none ever are."""
    if np.isnan(parameter).any():
        raise ExecutionError("Parameter value is NaN")
    if parameter.max() < 1:
        return None
    if parameter.min() <= LEAST_INTEGER:
        raise ExecutionError(f"Scalar value {print_shortest(float(parameter.min()))} underflows int64")
    if parameter.max() >= GREATEST_INTEGER:
        raise ExecutionError(f"Scalar value {print_shortest(float(parameter.max()))} overflows int64")
    return np.minimum(np.trunc(parameter), size)


def choose_best(evaluation: Evaluation, node: Aggregate, matrix: Matrix, parameter: Floats) -> Matrix:
    """Evaluates topk and bottomk."""
    wanted = checked_counts(parameter, matrix.size)
    if wanted is None or not matrix.size:
        return empty_matrix(matrix.steps)
    if matrix.histograms[:, wanted >= 1].any():
        evaluation.info(f"ignored histogram in {node.op} aggregation", node)
    groups = grouped(matrix.labels, node)
    sign = 1.0 if node.op == "topk" else -1.0
    order = np.argsort(groups.group, kind="stable")
    bounds = np.searchsorted(groups.group[order], np.arange(groups.count + 1))
    kept = np.zeros(matrix.present.shape, bool)
    ranked: list[int] = []
    for group in range(groups.count):
        rows = order[bounds[group] : bounds[group + 1]]
        with np.errstate(invalid="ignore"):
            values, present = matrix.values[rows] * sign, matrix.present[rows]
        if matrix.steps == 1:
            best = heap_best(values[:, 0], present[:, 0], int(wanted[0]))
            ranked.extend(int(rows[at]) for at in best)
            kept[rows[best], 0] = True
        else:
            kept[rows] = best_of_columns(values, present, wanted)
        evaluation.check()
    if matrix.steps == 1:
        return replace(matrix, cells=None).take(np.array(ranked, np.int64))
    return replace(matrix, present=kept, cells=None).without_empty()


def best_of_columns(values: Floats, present: Mask, wanted: Floats) -> Mask:
    """Says which rows of each column are among its greatest; ties at the border are settled as a heap does."""
    kept = np.zeros(present.shape, bool)
    keyed = np.where(present, np.where(np.isnan(values), -np.inf, values), -np.inf)
    number = present.sum(axis=0)
    size = len(values)
    columns = np.ascontiguousarray(keyed.T)
    for limit in np.unique(wanted[wanted >= 1]).astype(np.int64).tolist():
        steps = np.flatnonzero((wanted == limit) & (number > 0))
        whole = steps[number[steps] <= limit]
        kept[:, whole] = present[:, whole]
        steps = steps[number[steps] > limit]
        if not len(steps):
            continue
        parted = np.partition(columns[steps], size - limit, axis=1)
        border, below = parted[:, size - limit], parted[:, : size - limit].max(axis=1)
        clear = steps[border > below]
        kept[:, clear] = present[:, clear] & (keyed[:, clear] >= border[border > below])
        for step in steps[border <= below]:
            kept[heap_best(values[:, step], present[:, step], limit), step] = True
    return kept


def heap_best(values: Floats, present: Mask, limit: int) -> list[int]:
    """Returns the positions of the greatest values, best first, as a binary heap finds them."""
    heap: list[tuple[float, int]] = []

    def less(one: float, other: float) -> bool:
        return one != one or one < other

    def sift_up(at: int) -> None:
        while at > 0:
            parent = (at - 1) // 2
            if not less(heap[at][0], heap[parent][0]):
                return
            heap[at], heap[parent] = heap[parent], heap[at]
            at = parent

    def sift_down() -> None:
        at = 0
        while True:
            child = 2 * at + 1
            if child >= len(heap):
                return
            if child + 1 < len(heap) and less(heap[child + 1][0], heap[child][0]):
                child += 1
            if not less(heap[child][0], heap[at][0]):
                return
            heap[at], heap[child] = heap[child], heap[at]
            at = child

    if limit < 1:
        return []
    for position in np.flatnonzero(present).tolist():
        value = float(values[position])
        if len(heap) < limit:
            heap.append((value, position))
            sift_up(len(heap) - 1)
        elif heap[0][0] < value or (heap[0][0] != heap[0][0] and value == value):
            heap[0] = (value, position)
            sift_down()
    ranked = sorted(heap, key=lambda entry: (entry[0] != entry[0], -entry[0] if entry[0] == entry[0] else 0.0))
    return [position for _, position in ranked]


def limit_count(evaluation: Evaluation, node: Aggregate, matrix: Matrix, parameter: Floats) -> Matrix:
    """Evaluates limitk: the first series of each group that are there."""
    wanted = checked_counts(parameter, matrix.size)
    if wanted is None or not matrix.size:
        return empty_matrix(matrix.steps)
    groups = grouped(matrix.labels, node)
    order = np.argsort(groups.group, kind="stable")
    mask = matrix.mask[order]
    before = np.cumsum(mask, axis=0)
    starts = np.searchsorted(groups.group[order], groups.group[order], "left")
    base = np.where(starts[:, None] > 0, before[np.maximum(starts - 1, 0)], 0)
    kept = np.zeros(mask.shape, bool)
    kept[order] = mask & (before - base <= wanted)
    return matrix.where(kept)


def limit_share(evaluation: Evaluation, node: Aggregate, matrix: Matrix, parameter: Floats) -> Matrix:
    """Evaluates limit_ratio: the series whose hash is within a share of all."""
    if not parameter.any():
        return empty_matrix(matrix.steps)
    if np.isnan(parameter).any():
        raise ExecutionError("Ratio value is NaN")
    for extreme, bound in ((parameter.max(), 1.0), (parameter.min(), -1.0)):
        if abs(extreme) > 1 and extreme * bound > 0:
            evaluation.warn(
                f"ratio value should be between -1 and 1, got {print_shortest(float(extreme))}, "
                f"capping to {print_shortest(bound)}",
                node.parameter,
            )
    ratio = np.clip(parameter, -1.0, 1.0)
    offsets = ratio_offsets(matrix.labels)[:, None]
    kept = np.where(ratio >= 0, offsets < ratio, offsets >= 1.0 + ratio) & (parameter != 0)
    return matrix.where(np.broadcast_to(kept, matrix.present.shape))


def count_values(evaluation: Evaluation, node: Aggregate, matrix: Matrix, label: str) -> Matrix:
    """Counts for each value how many elements have it."""
    if not label or any("\udc80" <= char <= "\udcff" for char in label):
        raise ExecutionError(f'invalid label name "{label}"')
    if not matrix.size:
        return matrix
    rows, steps = np.nonzero(matrix.present)
    values = matrix.values[rows, steps]
    _, first, code = np.unique(values.view(np.int64), return_index=True, return_inverse=True)
    texts = [print_number(float(values[at])) for at in first]
    codes = code.reshape(-1)
    if matrix.cells is not None:
        cell_rows, cell_steps = np.nonzero(matrix.histograms)
        cell_texts = [print_histogram(matrix.cells[r, s]) for r, s in zip(cell_rows, cell_steps, strict=True)]
        codes = np.concatenate([codes, np.arange(len(cell_texts)) + len(texts)])
        texts += cell_texts
        rows, steps = np.concatenate([rows, cell_rows]), np.concatenate([steps, cell_steps])
    known: dict[str, int] = {"": 0}
    mapping = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    codes = mapping[codes] if len(codes) else codes
    # A result for each pair of a series and a value it has.
    pairs, at = np.unique(rows * len(known) + codes, return_inverse=True)
    labels = matrix.labels.take(pairs // len(known))
    labels = labels.with_column(label, Column((pairs % len(known)).astype(np.int32), list(known)))
    grouping = node.grouping if node.without else [*node.grouping, label]
    groups = grouped(labels, replace(node, grouping=grouping))
    counts = np.zeros((groups.count, matrix.steps))
    np.add.at(counts, (groups.group[at.reshape(-1)], steps), 1)
    return merge_same(Matrix(groups.labels, counts, counts > 0))
