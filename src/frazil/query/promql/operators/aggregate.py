"""Evaluates aggregations that give one series for each group, some series at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation
from frazil.query.promql.evaluation.matrix import Cells, Floats, Mask, Matrix, empty_cells
from frazil.query.promql.evaluation.selecting import CHUNK
from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.histograms.merge import IncompatibleSchemas, add_all, average
from frazil.query.promql.parse.tree import METRIC_NAME, Aggregate
from frazil.query.promql.series.labels import LabelTable, Rows
from frazil.query.promql.windows.folds import finished, increase, two_sum
from frazil.query.promql.windows.histograms import CLASHING, MISMATCHED, hints_clash
from frazil.query.promql.windows.overtime import quantiles, sort_with_nan_first

EPSILON = float(np.finfo(np.float64).eps)
# Results agree with those of other engines to a billionth.
INVISIBLE = 1e-11
IGNORING = frozenset(["min", "max", "stddev", "stdvar", "quantile"])


@dataclass(frozen=True)
class Piece:
    """Is some of the series that are aggregated: which, and their values."""

    rows: Rows
    matrix: Matrix


@dataclass
class Groups:
    """Says which row belongs to which group."""

    labels: LabelTable
    group: Rows
    count: int


def grouped(labels: LabelTable, node: Aggregate) -> Groups:
    """Groups series by the labels that an aggregation keeps."""
    kept = labels.drop([*node.grouping, METRIC_NAME]) if node.without else labels.keep(node.grouping)
    first, group = kept.groups()
    return Groups(kept.take(first), group, len(first))


@dataclass
class Collected:
    """Adds up pieces: counts, and what the operator needs."""

    op: str
    groups: Groups
    steps: int
    exact: bool
    """Whether sums are compensated. They need not be where nothing cancels out, which shows at the end."""
    floats: np.typing.NDArray[np.int64] = field(init=False)
    total: Floats = field(init=False)
    lost: Floats = field(init=False)
    sizes: Floats = field(init=False)
    """The sums of absolute values, where sums are not compensated."""
    dropped: Mask = field(init=False)
    cells: dict[tuple[int, int], list[tuple[Histogram, str]]] = field(default_factory=dict)
    seen_histograms: bool = False

    def __post_init__(self) -> None:
        shape = (self.groups.count, self.steps)
        self.floats = np.zeros(shape, np.int64)
        self.total = np.full(shape, np.nan) if self.op in ("min", "max") else np.zeros(shape)
        self.lost, self.sizes = np.zeros(shape), np.zeros(shape)
        self.dropped = np.zeros(self.groups.count, bool)

    def add(self, piece: Piece) -> None:
        matrix = piece.matrix
        group = self.groups.group[piece.rows]
        order = np.argsort(group, kind="stable")
        ordered = group[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
        targets = ordered[starts]
        if not len(order):
            return
        in_order = bool((order == np.arange(len(order))).all())
        values = matrix.values if in_order else matrix.values[order]
        present = matrix.present if in_order else matrix.present[order]
        everywhere = bool(present.all())
        if everywhere:
            self.floats[targets] += np.diff(np.r_[starts, len(ordered)])[:, None]
        else:
            self.floats[targets] += np.add.reduceat(present, starts, axis=0, dtype=np.int64)
        if matrix.dropped is not None:
            np.logical_or.at(self.dropped, group, matrix.dropped & matrix.mask.any(axis=1))
        if matrix.cells is not None:
            self.collect_cells(matrix, group)
        with np.errstate(all="ignore"):
            if self.op in ("sum", "avg"):
                values = values if everywhere else np.where(present, values, 0.0)
                if self.exact:
                    self.add_sums(values, ordered, targets)
                else:
                    self.add_plain(values, starts, targets)
            elif self.op in ("min", "max"):
                pick = np.fmin if self.op == "min" else np.fmax
                best = pick.reduceat(np.where(present, values, np.nan), starts, axis=0)
                self.total[targets] = pick(self.total[targets], best)

    def add_plain(self, values: Floats, starts: Rows, targets: Rows) -> None:
        total = np.add.reduceat(values, starts, axis=0)
        self.total[targets] += total
        positive = bool((values >= 0).all())
        self.sizes[targets] += total if positive else np.add.reduceat(np.abs(values), starts, axis=0)

    def is_sound(self) -> bool:
        """Whether what rounding took from plain sums cannot show in the result."""
        rounding = self.floats * EPSILON * self.sizes
        return bool((~np.isfinite(self.sizes) | (rounding <= INVISIBLE * np.abs(self.total))).all())

    def add_sums(self, values: Floats, ordered: Rows, targets: Rows) -> None:
        total, lost = sum_groups(values, ordered)
        grown, more = two_sum(self.total[targets], total)
        self.total[targets] = grown
        self.lost[targets] += lost + more

    def collect_cells(self, matrix: Matrix, group: Rows) -> None:
        assert matrix.cells is not None
        self.seen_histograms |= bool(matrix.histograms.any())
        if self.op not in ("sum", "avg", "count", "group"):
            return
        names = matrix.labels.get(METRIC_NAME).strings()
        for row, step in np.argwhere(matrix.histograms):
            found = self.cells.setdefault((int(group[row]), int(step)), [])
            found.append((matrix.cells[row, step], names[row]))


def sum_groups(values: Floats, group: Rows) -> tuple[Floats, Floats]:
    """Adds up the rows of each group with compensation, neighbours first; groups are in order."""
    lost = np.zeros(values.shape)
    while True:
        starts = np.r_[True, group[1:] != group[:-1]]
        if starts.all():
            return values, lost
        rank = np.arange(len(group)) - np.flatnonzero(starts)[np.cumsum(starts) - 1]
        left = np.flatnonzero(rank % 2 == 0)
        paired = left[left + 1 < len(group)]
        paired = paired[group[paired + 1] == group[paired]]
        total, more = two_sum(values[paired], values[paired + 1])
        more += lost[paired] + lost[paired + 1]
        at = np.searchsorted(left, paired)
        values, lost, group = values[left], lost[left], group[left]
        values[at], lost[at] = total, more


def pieces_of(matrix: Matrix, node: Aggregate) -> Iterator[Piece]:
    """Returns the rows of a matrix some at a time, those of a group together, so that they stay in the cache."""
    order = np.argsort(grouped(matrix.labels, node).group, kind="stable")
    # Of the labels only the names are told, in annotations on histograms.
    plain = matrix.with_labels(matrix.labels.keep([METRIC_NAME] if matrix.cells is not None else []))
    for first in range(0, matrix.size, CHUNK):
        rows = order[first : first + CHUNK]
        yield Piece(rows, plain.take(rows))


def aggregate(
    evaluation: Evaluation, node: Aggregate, labels: LabelTable, pieces: Callable[[], Iterable[Piece]], steps: int
) -> Matrix:
    """Aggregates pieces as they come; only the groups are kept."""
    groups = grouped(labels, node)
    sums = node.op in ("sum", "avg")
    for exact in (False, True):
        collected = Collected(node.op, groups, steps, exact)
        for piece in pieces():
            collected.add(piece)
            evaluation.check()
        if not sums or collected.is_sound():
            break
    present = collected.floats > 0
    values, cells = collected.total, None
    if node.op in IGNORING and collected.seen_histograms:
        evaluation.info(f"ignored histogram in {node.op} aggregation", node.expression)
    with np.errstate(all="ignore"):
        if node.op in ("count", "group"):
            counts = collected.floats.astype(np.float64)
            for (group, step), found in collected.cells.items():
                counts[group, step] += len(found)
            present = counts > 0
            values = counts if node.op == "count" else np.ones(counts.shape)
        elif node.op == "sum":
            values = finished(collected.total, collected.lost)
        elif node.op == "avg":
            count = np.maximum(collected.floats, 1)
            mean = collected.total / count
            values = np.where(np.isfinite(collected.total), mean + collected.lost / count, mean)
    if node.op in ("sum", "avg") and collected.cells:
        cells = aggregate_cells(evaluation, node, collected)
        mixed = np.zeros(present.shape, bool)
        for group, step in collected.cells:
            mixed[group, step] = present[group, step]
        if mixed.any():
            evaluation.warn("encountered a mix of histograms and floats for aggregation", node.expression)
        present = present & ~mixed
        cells[mixed] = None
    dropped = collected.dropped if collected.dropped.any() else None
    return Matrix(groups.labels, values, present, cells, dropped).without_empty()


def aggregate_cells(evaluation: Evaluation, node: Aggregate, collected: Collected) -> Cells:
    """Adds up (or averages) the histograms of each group and step."""
    cells = empty_cells((collected.groups.count, collected.steps))
    for (group, step), found in collected.cells.items():
        if collected.floats[group, step]:
            continue
        histograms = [histogram for histogram, _ in found]
        try:
            merged = add_all(histograms) if node.op == "sum" else average(histograms)
        except IncompatibleSchemas:
            first = found[0][0].custom
            name = next(name for histogram, name in found if histogram.custom != first)
            evaluation.warn(
                "vector contains a mix of histograms with exponential and custom buckets schemas "
                f'for metric name "{name}"',
                node.expression,
            )
            continue
        if hints_clash(histograms):
            evaluation.warn(CLASHING, node.expression)
        if merged.reconciled:
            evaluation.info(f"{MISMATCHED} aggregation", node.expression)
        cells[group, step] = merged.histogram.compact()
    return cells


def in_order(evaluation: Evaluation, node: Aggregate, matrix: Matrix, parameter: Floats | None) -> Matrix:
    """Evaluates what needs all rows: spread and quantiles, and sums that may overflow, row by row."""
    groups = grouped(matrix.labels, node)
    if node.op in IGNORING and matrix.histograms.any():
        evaluation.info(f"ignored histogram in {node.op} aggregation", node.expression)
    shape = (groups.count, matrix.steps)
    present = np.zeros(shape, bool)
    np.logical_or.at(present, groups.group, matrix.present)
    values = np.full(shape, np.nan)
    dropped = np.zeros(groups.count, bool)
    if matrix.dropped is not None:
        np.logical_or.at(dropped, groups.group, matrix.dropped)
    order = np.argsort(groups.group, kind="stable")
    bounds = np.searchsorted(groups.group[order], np.arange(groups.count + 1))
    for group in range(groups.count):
        rows = order[bounds[group] : bounds[group + 1]]
        here, there = matrix.values[rows], matrix.present[rows]
        with np.errstate(all="ignore"):
            if node.op == "quantile":
                assert parameter is not None
                ordered = sort_with_nan_first(np.ascontiguousarray(here.T), np.ascontiguousarray(there.T))
                values[group] = quantiles(ordered, there.sum(axis=0).astype(np.float64), parameter)
            elif node.op in ("stddev", "stdvar"):
                values[group] = spread(here, there, node.op == "stddev")
            else:
                values[group] = overflowing(here, there, node.op == "avg")
        evaluation.check()
    found = Matrix(groups.labels, values, present, None, dropped if dropped.any() else None)
    return found.without_empty()


def spread(values: Floats, present: Mask, root: bool) -> Floats:
    """Returns variance (or its root) of each column, by Welford's method."""
    steps = values.shape[1]
    count, mean, total = np.zeros(steps), np.zeros(steps), np.zeros(steps)
    for row, here in zip(values, present, strict=True):
        first = here & (count == 0)
        later = here & (count > 0)
        count = count + here
        mean = np.where(first, row, mean)
        total = np.where(first, np.where(np.isfinite(row), 0.0, np.nan), total)
        delta = row - mean
        next_mean = mean + delta / count
        total = np.where(later, total + delta * (row - next_mean), total)
        mean = np.where(later, next_mean, mean)
    variance = total / count
    return np.sqrt(variance) if root else variance


def overflowing(values: Floats, present: Mask, mean_wanted: bool) -> Floats:
    """Returns sum or mean of each column, added in order; means go on as running means before they overflow."""
    steps = values.shape[1]
    count, total, lost, mean = np.zeros(steps), np.zeros(steps), np.zeros(steps), np.zeros(steps)
    running = np.zeros(steps, bool)
    for row, here in zip(values, present, strict=True):
        first, later = here & (count == 0), here & (count > 0)
        count = count + here
        total = np.where(first, row, total)
        grown, more = increase(row, total, lost)
        overflows = later & ~running & np.isinf(grown) & mean_wanted
        mean = np.where(overflows, total / (count - 1), mean)
        lost = np.where(overflows, lost / (count - 1), lost)
        plain = later & ~running & ~overflows
        running = running | overflows
        share = (count - 1) / count
        next_mean, next_lost = increase(row / count, share * mean, share * lost)
        stepping = later & running
        mean = np.where(stepping, next_mean, mean)
        total = np.where(plain, grown, total)
        lost = np.where(plain, more, np.where(stepping, next_lost, lost))
    if not mean_wanted:
        return finished(total, lost)
    return np.where(running, mean + lost, total / count + lost / count)
