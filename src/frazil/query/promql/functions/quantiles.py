"""Evaluates quantiles and fractions, of native histograms and of classic ones with a series for each bucket."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from frazil.query.promql.evaluation.annotations import Monotonicity
from frazil.query.promql.evaluation.context import Evaluation, Steps
from frazil.query.promql.evaluation.matrix import RESERVED, Floats, Mask, Matrix, drop_names, merge_same, stack
from frazil.query.promql.histograms import quantiles as native
from frazil.query.promql.parse.tree import Node, print_shortest
from frazil.query.promql.series.labels import LabelTable, Rows, column_of, concatenate
from frazil.query.promql.series.source import Times

SMALL_DIFFERENCE = 1e-12
# So many histograms are computed at once, that their buckets stay in the processor's cache.
BATCH = 32
REPAIRED = (
    "input to histogram_quantile needed to be fixed for monotonicity "
    "(see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
)


@dataclass(frozen=True)
class Classic:
    """Has the buckets of one classic histogram, ascending: bounds, and counts by bucket and step."""

    bounds: Floats
    counts: Floats
    present: Mask


@dataclass(frozen=True)
class Histograms:
    """Has all histograms of a vector: a row for each, classic or native or at different steps both."""

    labels: LabelTable
    classic: dict[int, Classic]
    native: Matrix
    native_row: dict[int, int]
    clash: Mask
    """Where a row has a classic and a native histogram at one step."""


def parse_bound(text: str) -> float | None:
    """Reads the label `le` as Go reads floats."""
    lower = text.lower().lstrip("+-")
    if lower in ("infinity", "inf", "nan"):
        value = float(lower)
        return -value if text.startswith("-") else value
    if lower.startswith("0x"):
        try:
            return float.fromhex(text) if "p" in lower else None
        except (ValueError, OverflowError):
            return None
    try:
        return float(text) if "_" not in text and text.strip() == text else None
    except ValueError:
        return None


def split(evaluation: Evaluation, matrix: Matrix, argument: Node) -> Histograms:
    """Sorts a vector into classic and native histograms, and warns of what is neither."""
    le = matrix.labels.get("le")
    bounds = [parse_bound(text) for text in le.values]
    readable = np.array([bound is not None for bound in bounds])[le.codes]
    floats = matrix.present.any(axis=1)
    warn_of_bounds(evaluation, matrix.labels, floats & ~readable, argument)
    bucket_rows = np.flatnonzero(floats & readable)
    cell_rows = np.flatnonzero(matrix.histograms.any(axis=1))
    # Classic buckets are grouped without `le`; native histograms keep it, and are groups of their own then.
    without_le = matrix.labels.drop(["le"]).take(bucket_rows)
    labels = concatenate([without_le, matrix.labels.take(cell_rows)])
    first, group = labels.groups()
    values = np.array([math.nan if bound is None else bound for bound in bounds])[le.codes]
    classic = dict(classic_histograms(matrix, bucket_rows, group[: len(bucket_rows)], values))
    native_row = {int(g): int(r) for g, r in zip(group[len(bucket_rows) :], cell_rows, strict=True)}
    clash = np.zeros((len(first), matrix.steps), bool)
    for number, row in native_row.items():
        if number in classic:
            clash[number] = classic[number].present.any(axis=0) & matrix.histograms[row]
    found = Histograms(labels.take(first), classic, matrix, native_row, clash)
    names = told_names(evaluation, found)
    for number in np.flatnonzero(clash.any(axis=1)).tolist():
        text = "vector contains a mix of classic and native histograms"
        evaluation.warn(f'{text} for metric name "{names[number]}"' if names[number] else text, argument)
    return found


def classic_histograms(
    matrix: Matrix, bucket_rows: Rows, group: Rows, bounds: Floats
) -> Iterator[tuple[int, Classic]]:
    """Returns the buckets of each group by their bounds."""
    if not len(bucket_rows):
        return
    order = np.lexsort([bounds[bucket_rows], group])
    ordered = group[order]
    numbers, starts = np.unique(ordered, return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(bucket_rows[order], starts[1:]), strict=True):
        yield number, Classic(bounds[rows], matrix.values[rows], matrix.present[rows])


def warn_of_bounds(evaluation: Evaluation, labels: LabelTable, unreadable: Mask, argument: Node) -> None:
    """Warns of floats that are no buckets."""
    le = labels.get("le")
    for code in np.unique(le.codes[unreadable]):
        text = f'bucket label "le" is missing or has a malformed value of "{le.values[code]}"'
        rows = np.flatnonzero(unreadable & (le.codes == code))
        for name in metric_names(labels, rows) if evaluation.options.delayed_names else [""]:
            evaluation.warn(f'{text} for metric name "{name}"' if name else text, argument)


def metric_names(labels: LabelTable, rows: Rows) -> list[str]:
    column = labels.get("__name__")
    return [column.values[code] for code in np.unique(column.codes[rows])]


def histogram_quantile(
    evaluation: Evaluation, matrix: Matrix, q: Floats, steps: Steps, q_node: Node, argument: Node
) -> Matrix:
    """Evaluates histogram_quantile."""
    warn_of_quantiles(evaluation, q, q_node)
    found = quantile_rows(evaluation, split(evaluation, matrix, argument), q, steps, argument)
    return drop_names(found.without_empty(), evaluation.options.delayed_names)


def warn_of_quantiles(evaluation: Evaluation, q: Floats, node: Node) -> None:
    for value in np.unique(q[~((q >= 0) & (q <= 1))]):
        evaluation.warn(f"quantile value should be between 0 and 1, got {print_shortest(float(value))}", node)


def told_names(evaluation: Evaluation, histograms: Histograms) -> list[str]:
    """Returns the metric names that annotations tell: none where names are dropped at once."""
    if not evaluation.options.delayed_names:
        return [""] * histograms.labels.size
    return histograms.labels.get("__name__").strings()


def quantile_rows(evaluation: Evaluation, histograms: Histograms, q: Floats, steps: Steps, argument: Node) -> Matrix:
    shape = (histograms.labels.size, len(q))
    values, present = np.full(shape, np.nan), np.zeros(shape, bool)
    names = told_names(evaluation, histograms)
    for rows, classic in batches(histograms, names):
        number = len(rows)
        found, here, repaired = classic_quantiles(classic, np.tile(q, number), np.tile(steps.times, number))
        values[rows], present[rows] = found.reshape(number, -1), here.reshape(number, -1)
        if repaired is not None:
            name = names[rows[0]]
            text = f'{REPAIRED} for metric name "{name}"' if name else REPAIRED
            evaluation.annotations.repair(text, repaired, argument)
        evaluation.check()
    for row, source in histograms.native_row.items():
        cells = histograms.native.cells
        assert cells is not None
        for step in np.flatnonzero(histograms.native.histograms[source]):
            values[row, step], note = native.quantile(float(q[step]), cells[source, step])
            present[row, step] = True
            if note:
                result = "result is NaN" if note == "nan" else "result is skewed higher"
                text = f"input to histogram_quantile has NaN observations, {result}"
                evaluation.info(f'{text} for metric name "{names[row]}"' if names[row] else text, argument)
    return Matrix(histograms.labels, values, present & ~histograms.clash)


def batches(histograms: Histograms, names: list[str]) -> Iterator[tuple[list[int], Classic]]:
    """Returns classic histograms of the same bounds and name together: their steps stand side by side."""
    alike: dict[tuple[bytes, str], list[int]] = {}
    for row, classic in histograms.classic.items():
        alike.setdefault((classic.bounds.tobytes(), names[row]), []).append(row)
    for rows in alike.values():
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            members = [histograms.classic[row] for row in part]
            yield (
                part,
                Classic(
                    members[0].bounds,
                    np.concatenate([member.counts for member in members], axis=1),
                    np.concatenate([member.present for member in members], axis=1),
                ),
            )


def classic_quantiles(classic: Classic, q: Floats, times: Times) -> tuple[Floats, Mask, Monotonicity | None]:
    """Returns a quantile for each step, and what had to be repaired."""
    bounds, counts, here = classic.bounds, classic.counts, classic.present
    present: Mask = np.asarray(here.any(axis=0))
    same = np.r_[False, bounds[1:] == bounds[:-1]] if len(bounds) else np.zeros(0, bool)
    if same.any():
        starts = np.flatnonzero(~same)
        counts = np.add.reduceat(np.where(here, counts, 0.0), starts, axis=0)
        here = np.logical_or.reduceat(here, starts, axis=0)
        bounds = bounds[starts]
    with np.errstate(all="ignore"):
        fixed, repaired = monotonic(bounds, counts, here, q, times)
        number = here.sum(axis=0)
        ends_open = bool(len(bounds)) and math.isinf(bounds[-1]) and bounds[-1] > 0
        total = fixed[-1]
        rank = q * total
        # The last bucket counts as found where no other is; absent ones repeat the count before them.
        reaches = (fixed >= rank) & here
        reaches[-1] = True
        at = np.argmax(reaches, axis=0)
        columns = np.arange(len(q))
        before = previous_present(here)
        previous = before[at, columns]
        lower = np.where(previous >= 0, bounds[previous], 0.0)
        below = np.where(previous >= 0, fixed[previous, columns], 0.0)
        upper = bounds[at]
        count = fixed[at, columns]
        inside = lower + (upper - lower) * ((rank - below) / (count - below))
        last = at == len(bounds) - 1
        values = np.where((previous < 0) & (upper <= 0), upper, inside)
        values = np.where(last, np.where(previous >= 0, bounds[previous], np.nan), values)
        usable = (here[-1] if ends_open else np.zeros(len(q), bool)) & (number >= 2) & (total != 0)
        values = np.where(usable, values, np.nan)
        values = np.where(np.isnan(q), np.nan, np.where(q < 0, -np.inf, np.where(q > 1, np.inf, values)))
    return values, present, repaired


def previous_present(here: Mask) -> Rows:
    """Returns for each bucket and step the position of the bucket before it that is there, or -1."""
    positions = np.where(here, np.arange(len(here))[:, None], -1)
    before = np.full(here.shape, -1)
    np.maximum.accumulate(positions[:-1], axis=0, out=before[1:])
    return before


def monotonic(
    bounds: Floats, counts: Floats, here: Mask, q: Floats, times: Times
) -> tuple[Floats, Monotonicity | None]:
    """Lets no bucket have less than the one before it. Tiny differences are no news, others are."""
    fixed = np.where(here, counts, 0.0)
    repaired: Monotonicity | None = None
    wanted = (q >= 0) & (q <= 1) & here[-1] & (bounds[-1] == math.inf)
    touched = np.zeros(len(q), bool)
    known = here[0].copy()
    for at in range(1, len(bounds)):
        previous, current = fixed[at - 1], fixed[at]
        both = here[at] & known
        equal = previous == current
        small = np.abs(current - previous) / (np.abs(current) + np.abs(previous)) < SMALL_DIFFERENCE
        drops = both & ~equal & ~small & (current < previous) & wanted
        if drops.any():
            difference = float((previous - current)[drops].max())
            touched |= drops
            if repaired is None:
                repaired = Monotonicity(float(bounds[at]), float(bounds[at]), difference, 0, 0, 0)
            repaired.highest = max(repaired.highest, float(bounds[at]))
            repaired.difference = max(repaired.difference, difference)
        repeat = (both & (small | (current < previous))) | (~here[at] & known)
        fixed[at] = np.where(repeat, previous, current)
        known |= here[at]
    if repaired is not None:
        repaired.samples = int(touched.sum())
        repaired.first_ms, repaired.last_ms = int(times[touched].min()), int(times[touched].max())
    return fixed, repaired


def histogram_quantiles(
    evaluation: Evaluation,
    matrix: Matrix,
    label: str,
    quantiles: list[tuple[Floats, Node]],
    steps: Steps,
    argument: Node,
) -> Matrix:
    """Evaluates histogram_quantiles: a series for each quantile, with its value as a label."""
    parts = []
    histograms = split(evaluation, matrix, argument)
    for q, node in quantiles:
        warn_of_quantiles(evaluation, q, node)
        found = quantile_rows(evaluation, histograms, q, steps, argument)
        for value in np.unique(q):
            same = (q == value) | (np.isnan(q) & np.isnan(value))
            part = found.where(np.broadcast_to(same, found.present.shape))
            column = column_of([print_openmetrics(float(value))] * part.size)
            labels = part.labels.with_column(label, column)
            parts.append(part.with_labels(labels))
    return merge_same(drop_names(stack(parts, matrix.steps), evaluation.options.delayed_names))


def print_openmetrics(value: float) -> str:
    """Prints a float as OpenMetrics does: with a point or an exponent."""
    text = print_shortest(value)
    return text if any(mark in text for mark in ".eNI") else text + ".0"


def histogram_fraction(
    evaluation: Evaluation, matrix: Matrix, lower: Floats, upper: Floats, argument: Node
) -> Matrix:
    """Evaluates histogram_fraction."""
    histograms = split(evaluation, matrix, argument)
    shape = (histograms.labels.size, matrix.steps)
    values, present = np.full(shape, np.nan), np.zeros(shape, bool)
    names = told_names(evaluation, histograms)
    for row, classic in histograms.classic.items():
        for step in np.flatnonzero(classic.present.any(axis=0)):
            here = classic.present[:, step]
            bounds, counts = classic.bounds[here], classic.counts[here, step]
            values[row, step] = classic_fraction(bounds, counts, float(lower[step]), float(upper[step]))
            present[row, step] = True
    for row, source in histograms.native_row.items():
        cells = histograms.native.cells
        assert cells is not None
        for step in np.flatnonzero(histograms.native.histograms[source]):
            found, left_out = native.fraction(float(lower[step]), float(upper[step]), cells[source, step])
            values[row, step], present[row, step] = found, True
            if left_out:
                text = "input to histogram_fraction has NaN observations, which are excluded from all fractions"
                evaluation.info(f'{text} for metric name "{names[row]}"' if names[row] else text, argument)
    found_matrix = Matrix(histograms.labels, values, present & ~histograms.clash).without_empty()
    return drop_names(found_matrix, evaluation.options.delayed_names, RESERVED)


def classic_fraction(bounds: Floats, counts: Floats, lower: float, upper: float) -> float:
    """Returns which part of the observations lies between two values."""
    if not math.isinf(bounds[-1]) or bounds[-1] < 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan
    starts = np.flatnonzero(np.r_[True, bounds[1:] != bounds[:-1]])
    counts, bounds = np.add.reduceat(counts, starts), bounds[starts]
    total = float(counts[-1])
    if total == 0 or math.isnan(total):
        return math.nan
    if lower >= upper:
        return 0.0
    low, high = (classic_rank(bounds, counts, value) for value in (lower, upper))
    low, high = (total if rank is None or rank > total else rank for rank in (low, high))
    return (high - low) / total


def classic_rank(bounds: Floats, counts: Floats, value: float) -> float | None:
    """Returns how many observations are below a value; None when that is beyond all buckets."""
    rank, lower = 0.0, 0.0 if bounds[0] > 0 else -math.inf
    for bound, count in zip(bounds.tolist(), counts.tolist(), strict=True):
        if lower >= value:
            return rank
        if value < bound:
            if math.isinf(lower):
                return float(count)
            if math.isinf(bound):
                return rank
            return float(rank + (count - rank) * (value - lower) / (bound - lower))
        rank, lower = count, bound
    return None
