"""Merges the samples of units: those of a series come together, by time, each time once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.formats.otlp.points import KINDS
from frazil.query.promql.series.hints import hinted
from frazil.query.promql.series.labels import Column, LabelTable, concatenate
from frazil.query.promql.series.source import Samples, SeriesBlock, no_samples
from frazil.query.promql.storage.arrow_columns import Ints, Mask
from frazil.query.promql.storage.part_joining import stacked
from frazil.query.promql.storage.sample_parts import SamplePart
from frazil.query.promql.storage.series_labels import TYPE


def merge(floats: Sequence[SamplePart], histograms: Sequence[SamplePart]) -> SeriesBlock | None:
    """Returns each series once. Of two samples at one time that counts which is later in the log."""
    every = [part for part in (stacked(floats), stacked(histograms)) if part is not None]
    if not every:
        return None
    labels = concatenate([part.labels for part in every])
    labels = told_apart(labels, np.concatenate([part.kinds for part in every]))
    merged, groups = _sorted_series(labels)
    sizes = np.cumsum([part.labels.size for part in every])[:-1]
    numbered = [_with_groups(part, group) for part, group in zip(every, np.split(groups, sizes), strict=True)]
    if len(numbered) == 2:
        numbered = _without_shadowed(*numbered)
    numeric = [each for each in numbered if each[0].values.dtype != object]
    native = [each for each in numbered if each[0].values.dtype == object]
    found = _assembled(*numeric[0], merged.size) if numeric else no_samples(merged.size)
    if not native or not len(native[0][0].times):
        return SeriesBlock(merged, found)
    return SeriesBlock(merged, found, _with_hints(_assembled(*native[0], merged.size)))


def told_apart(labels: LabelTable, kinds: Ints) -> LabelTable:
    """Adds the label `__type__` to series of OTLP that have all labels in common and are of different kinds."""
    keys = labels.keys()
    if not kinds.any() or labels.size < 2:
        return labels
    named = np.flatnonzero(kinds)
    pairs = np.unique(np.stack([keys[named], kinds[named].astype(np.int64)]), axis=1)
    several = np.unique(pairs[0][1:][pairs[0][1:] == pairs[0][:-1]])
    if not len(several):
        return labels
    codes = np.where(np.isin(keys, several), kinds, 0).astype(np.int32)
    return labels.with_column(TYPE, Column(codes, ["", *KINDS]))


def _sorted_series(labels: LabelTable) -> tuple[LabelTable, Ints]:
    """Returns each series once, and which of them each row is.

    They have the order of their labels, so that what depends on it (`topk` among equals) does not depend on where
    samples are.
    """
    firsts, groups = labels.groups()
    merged = labels.take(firsts)
    order = np.asarray(merged.order())
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return merged.take(order), ranks[groups]


def _with_groups(part: SamplePart, group: Ints) -> tuple[SamplePart, Ints]:
    return part, np.repeat(group, np.diff(part.offsets))


def _assembled(part: SamplePart, series: Ints, size: int) -> Samples:
    """Returns the samples of each series together, sorted by time."""
    same = series[1:] == series[:-1]
    in_order = (series[1:] > series[:-1]) | (same & (part.times[1:] > part.times[:-1]))
    times, values, starts = part.times, part.values, part.starts
    if not in_order.all():
        order = _sorted(part, series)
        series = series[order]
        times, values = times[order], values[order]
        starts = None if starts is None else starts[order]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(series, minlength=size))]).astype(np.int64)
    return Samples(times, values, offsets, starts)


def _sorted(part: SamplePart, series: Ints) -> Ints:
    """Returns the samples by series and time, the last of each time only."""
    order = np.argsort(series, kind="stable")
    same = series[order][1:] == series[order][:-1]
    later = part.times[order][1:] > part.times[order][:-1]
    if (later | ~same).all():
        return order
    order = np.lexsort((part.places, part.times, series))
    last: Mask = np.ones(len(order), bool)
    times, owners = part.times[order], series[order]
    last[:-1] = (owners[1:] != owners[:-1]) | (times[1:] != times[:-1])
    return order[last]


def _without_shadowed(one: tuple[SamplePart, Ints], other: tuple[SamplePart, Ints]) -> list[tuple[SamplePart, Ints]]:
    """Leaves out floats where a histogram of the same series and time came later, and the other way round."""
    series = np.concatenate([one[1], other[1]])
    times = np.concatenate([one[0].times, other[0].times])
    places = np.concatenate([one[0].places, other[0].places])
    order = np.lexsort((places, times, series))
    last = np.ones(len(order), bool)
    last[:-1] = (series[order][1:] != series[order][:-1]) | (times[order][1:] != times[order][:-1])
    kept = np.zeros(len(order), bool)
    kept[order[last]] = True
    cut = len(one[1])
    return [_only(one, kept[:cut]), _only(other, kept[cut:])]


def _only(rows: tuple[SamplePart, Ints], kept: Mask) -> tuple[SamplePart, Ints]:
    part, series = rows
    if kept.all():
        return rows
    # Empty series must stay, because the groups count them.
    offsets = np.concatenate([[0], np.cumsum(kept)])[part.offsets].astype(np.int64)
    starts = None if part.starts is None else part.starts[kept]
    found = SamplePart(
        part.labels, part.kinds, offsets, part.times[kept], part.places[kept], part.values[kept], starts
    )
    return found, series[kept]


def _with_hints(samples: Samples) -> Samples:
    assert samples.offsets is not None
    values = np.empty(len(samples.values), object)
    for first, last in zip(samples.offsets[:-1].tolist(), samples.offsets[1:].tolist(), strict=True):
        if last > first:
            values[first:last] = hinted(list(samples.values[first:last]))
    return Samples(samples.times, values, samples.offsets, samples.starts)
