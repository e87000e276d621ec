"""Adds and subtracts histograms whose buckets differ: in schema, zero threshold or custom bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.query.promql.histograms.histogram import EMPTY, Buckets, Floats, Hint, Histogram, bounds_of, upper_bounds


class IncompatibleSchemas(Exception):
    """Raised when exponential and custom buckets meet; whoever adds says so in an annotation."""


@dataclass
class Merged:
    """Is a sum or difference, and what there is to say about it."""

    histogram: Histogram
    hint_clash: bool = False
    reconciled: bool = False
    """Whether custom bounds differed, so that only the common ones are left."""


def add(left: Histogram, right: Histogram) -> Merged:
    return merge(left, right, 1.0)


def subtract(left: Histogram, right: Histogram) -> Merged:
    found = merge(left, right, -1.0)
    found.histogram = found.histogram.with_hint(Hint.GAUGE)
    return found


def merge(left: Histogram, right: Histogram, sign: float) -> Merged:
    if left.custom != right.custom:
        raise IncompatibleSchemas
    hint, clash = merge_hints(left.hint, right.hint)
    reconciled = False
    if left.custom:
        left, right, reconciled = common_bounds(left, right)
    else:
        left, right = common_threshold(left, right)
        schema = min(left.schema, right.schema)
        left, right = reduce_schema(left, schema), outside_zero(reduce_schema(right, schema))
    with np.errstate(all="ignore"):
        result = replace(
            left,
            count=float(np.float64(left.count) + sign * right.count),
            sum=float(np.float64(left.sum) + sign * np.float64(right.sum)),
            zero_count=left.zero_count + sign * right.zero_count,
            positive=add_sides(left.positive, right.positive, sign),
            negative=add_sides(left.negative, right.negative, sign),
            hint=hint,
        )
    return Merged(result, clash, reconciled)


def merge_hints(left: Hint, right: Hint) -> tuple[Hint, bool]:
    """Returns what is known of the sum, and whether the two contradict each other."""
    if left == right or left == Hint.GAUGE:
        return left, False
    if right == Hint.GAUGE:
        return right, False
    if Hint.UNKNOWN in (left, right):
        return Hint.UNKNOWN, False
    return Hint.UNKNOWN, True


def outside_zero(histogram: Histogram) -> Histogram:
    """Returns a histogram that is added to another without buckets inside its zero bucket: they count there."""
    if not histogram.zero_threshold > 0:
        return histogram
    positive, negative = clear_zero(histogram.positive, histogram), clear_zero(histogram.negative, histogram)
    if positive is histogram.positive and negative is histogram.negative:
        return histogram
    return replace(histogram, positive=positive, negative=negative)


def clear_zero(side: Buckets, histogram: Histogram) -> Buckets:
    # The bound of the lowest bucket, near enough to see that there is nothing to do, as there hardly ever is.
    if not len(side) or int(side.indexes[0]) * 2.0**-histogram.schema > math.log2(histogram.zero_threshold) + 1e-6:
        return side
    outside = upper_bounds(side.indexes, histogram.schema) > histogram.zero_threshold
    return side if outside.all() else Buckets(side.indexes[outside], side.counts[outside])


def add_sides(left: Buckets, right: Buckets, sign: float) -> Buckets:
    if not len(right):
        return left
    if len(left) == len(right) and np.array_equal(left.indexes, right.indexes):
        return Buckets(left.indexes, left.counts + sign * right.counts)
    indexes = np.union1d(left.indexes, right.indexes)
    counts = np.zeros(len(indexes))
    counts[np.searchsorted(indexes, left.indexes)] = left.counts
    counts[np.searchsorted(indexes, right.indexes)] += sign * right.counts
    return Buckets(indexes, counts)


def reduce_schema(histogram: Histogram, schema: int) -> Histogram:
    """Returns the histogram with the coarser buckets of a lower schema."""
    steps = histogram.schema - schema
    if steps <= 0 or histogram.custom:
        return histogram
    return replace(
        histogram,
        schema=schema,
        positive=reduce_side(histogram.positive, steps),
        negative=reduce_side(histogram.negative, steps),
    )


def reduce_side(side: Buckets, steps: int) -> Buckets:
    if not len(side):
        return side
    return regroup(((side.indexes - 1) >> steps) + 1, side.counts)


def regroup(indexes: np.typing.NDArray[np.int64], counts: Floats) -> Buckets:
    """Adds up the counts of equal indexes, which ascend."""
    first = np.flatnonzero(np.r_[True, indexes[1:] != indexes[:-1]])
    return Buckets(indexes[first], np.add.reduceat(counts, first))


def common_bounds(left: Histogram, right: Histogram) -> tuple[Histogram, Histogram, bool]:
    if left.bounds == right.bounds:
        return left, right, False
    common = tuple(sorted(set(left.bounds) & set(right.bounds)))
    return with_bounds(left, common), with_bounds(right, common), True


def with_bounds(histogram: Histogram, bounds: tuple[float, ...]) -> Histogram:
    """Returns a histogram with fewer custom bounds; counts move to the next bound that is left."""
    side = histogram.positive
    if len(side):
        upper = np.array([*histogram.bounds, math.inf])[side.indexes]
        side = regroup(np.searchsorted(np.array(bounds), upper, "left").astype(np.int64), side.counts)
    return replace(histogram, bounds=bounds, positive=side)


def zero_count_for(histogram: Histogram, threshold: float) -> tuple[float, float]:
    """Returns count and threshold of a zero bucket that is at least this wide and cuts no populated bucket."""
    if threshold == histogram.zero_threshold:
        return histogram.zero_count, threshold
    while True:
        count, wider = histogram.zero_count, threshold
        for side in (histogram.positive, histogram.negative):
            if not len(side):
                continue
            lower, upper = bounds_of(side.indexes, histogram.schema, ())
            lower = np.where(
                (lower < histogram.zero_threshold) & (upper > histogram.zero_threshold),
                histogram.zero_threshold,
                lower,
            )
            inside = lower < threshold
            count += float(side.counts[inside].sum())
            cut = inside & (upper > threshold) & (side.counts != 0)
            if cut.any():
                wider = max(wider, float(upper[cut].max()))
        if wider == threshold:
            return count, threshold
        threshold = wider


def widen_zero(histogram: Histogram, threshold: float) -> Histogram:
    count, threshold = zero_count_for(histogram, threshold)

    def outside(side: Buckets) -> Buckets:
        if not len(side):
            return side
        lower, upper = bounds_of(side.indexes, histogram.schema, ())
        keep = (upper > threshold) & ((lower >= threshold) | (side.counts != 0)) & (side.counts != 0)
        return Buckets(side.indexes[keep], side.counts[keep]) if keep.any() else EMPTY

    return replace(
        histogram,
        zero_count=count,
        zero_threshold=threshold,
        positive=outside(histogram.positive),
        negative=outside(histogram.negative),
    )


def common_threshold(left: Histogram, right: Histogram) -> tuple[Histogram, Histogram]:
    while left.zero_threshold != right.zero_threshold:
        if left.zero_threshold > right.zero_threshold:
            right = widen_zero(right, left.zero_threshold)
        else:
            left = widen_zero(left, right.zero_threshold)
    return left, right


def neumaier(rows: Floats) -> Floats:
    """Adds up rows with compensation, so that nothing small is lost beside what cancels out."""
    with np.errstate(all="ignore"):
        total, lost = rows[0].copy(), np.zeros_like(rows[0])
        for row in rows[1:]:
            grown = total + row
            lost += np.where(np.abs(total) >= np.abs(row), (total - grown) + row, (row - grown) + total)
            lost[np.isinf(grown)] = 0.0
            total = grown
        return np.asarray(np.where(np.isinf(total), total, total + lost))


def add_all(histograms: Sequence[Histogram]) -> Merged:
    """Adds up histograms, with compensation where all have the same kind of buckets."""
    first = histograms[0]
    if len(histograms) == 1:
        return Merged(first)
    alike = all(
        h.schema == first.schema and h.zero_threshold == first.zero_threshold and h.bounds == first.bounds
        for h in histograms
    )
    if not alike:
        found = Merged(first)
        for histogram in histograms[1:]:
            added = add(found.histogram, histogram)
            found = Merged(
                added.histogram, found.hint_clash or added.hint_clash, found.reconciled or added.reconciled
            )
        fitted = [fit(histogram, found.histogram) for histogram in histograms]
        if not all(histogram.zero_threshold == found.histogram.zero_threshold for histogram in fitted):
            return found
        return Merged(add_all(fitted).histogram, found.hint_clash, found.reconciled)
    histograms = [first, *map(outside_zero, histograms[1:])]
    hint, clash = first.hint, False
    for histogram in histograms[1:]:
        hint, clashes = merge_hints(hint, histogram.hint)
        clash |= clashes
    totals = neumaier(np.array([(h.count, h.sum, h.zero_count) for h in histograms]))
    return Merged(
        replace(
            first,
            count=float(totals[0]),
            sum=float(totals[1]),
            zero_count=float(totals[2]),
            positive=add_all_sides([h.positive for h in histograms]),
            negative=add_all_sides([h.negative for h in histograms]),
            hint=hint,
        ),
        clash,
    )


def fit(histogram: Histogram, layout: Histogram) -> Histogram:
    """Returns a histogram with the buckets of another, which are coarser."""
    if histogram.custom:
        return histogram if histogram.bounds == layout.bounds else with_bounds(histogram, layout.bounds)
    if histogram.zero_threshold != layout.zero_threshold:
        histogram = widen_zero(histogram, layout.zero_threshold)
    return reduce_schema(histogram, layout.schema)


def add_all_sides(sides: list[Buckets]) -> Buckets:
    filled = [side for side in sides if len(side)]
    if not filled:
        return EMPTY
    indexes = np.unique(np.concatenate([side.indexes for side in filled]))
    rows = np.zeros((len(filled), len(indexes)))
    for row, side in zip(rows, filled, strict=True):
        row[np.searchsorted(indexes, side.indexes)] = side.counts
    return Buckets(indexes, neumaier(rows))


def overflows(histogram: Histogram) -> bool:
    values = [histogram.count, histogram.sum, histogram.zero_count]
    sides = (histogram.positive.counts, histogram.negative.counts)
    return any(map(math.isinf, values)) or any(bool(np.isinf(side).any()) for side in sides)


def average(histograms: Sequence[Histogram]) -> Merged:
    """Returns the mean: of the sum, or of parts where the sum would be infinite."""
    found = add_all(histograms)
    if not overflows(found.histogram) or any(overflows(h) for h in histograms):
        found.histogram = found.histogram.divided(len(histograms))
        return found
    found.histogram = add_all([histogram.divided(len(histograms)) for histogram in histograms]).histogram
    return found
