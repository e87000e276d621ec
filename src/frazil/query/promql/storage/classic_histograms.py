"""Turns histograms with explicit bounds, and summaries, into the series that Prometheus has for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from frazil.query.promql.parse.literals import print_number
from frazil.query.promql.series.source import STALE
from frazil.query.promql.storage.arrow_columns import Floats, Ints, Mask, floats, ints, list_values, mixed, valid
from frazil.query.promql.storage.part_joining import stacked
from frazil.query.promql.storage.sample_parts import SamplePart, ShapedRows, with_name


def series_of(rows: ShapedRows) -> SamplePart | None:
    found = [*_totals(rows)]
    bounds, counts = rows.batch.column("explicit_bounds"), rows.batch.column("bucket_counts")
    places, bound_values = list_values(bounds)
    for chosen, size in _alike(places, floats(bound_values)):
        edges = floats(bound_values)[places[chosen[0]] : places[chosen[0]] + size]
        found += _buckets(rows, chosen, edges, counts)
    return stacked(found)


def summary_series(rows: ShapedRows) -> SamplePart | None:
    """Returns the series of summaries: one for each quantile, `_sum` and `_count`."""
    found = [*_totals(rows)]
    places, items = list_values(rows.batch.column("quantile_values"))
    quantiles, values = floats(items.field("quantile")), floats(items.field("value"))
    owners = np.repeat(np.arange(len(rows.batch)), np.diff(places))
    stale = rows.stale
    for quantile in np.unique(quantiles).tolist():
        at = np.flatnonzero(quantiles == quantile)
        wanted = np.zeros(len(rows.batch), bool)
        wanted[owners[at]] = True
        filled = np.full(len(rows.batch), np.nan)
        filled[owners[at]] = values[at]
        found.append(_part(rows, np.where(stale, STALE, filled), wanted, "", {"quantile": print_number(quantile)}))
    return stacked(found)


def _totals(rows: ShapedRows) -> Iterator[SamplePart]:
    stale = rows.stale
    counts, sums = rows.batch.column("count"), rows.batch.column("sum")
    yield _part(rows, np.where(stale, STALE, ints(counts)), valid(counts) | stale, "_count")
    yield _part(rows, np.where(stale, STALE, floats(sums)), valid(sums) | stale, "_sum")


def _buckets(rows: ShapedRows, chosen: Ints, edges: Floats, counts: pa.ListArray) -> Iterator[SamplePart]:
    """Returns the series of the buckets of some rows, whose bounds are the same."""
    places, items = list_values(counts)
    widths = np.diff(places)[chosen]
    totals, stale = ints(rows.batch.column("count")), rows.stale
    full = chosen[widths == len(edges) + 1]
    cumulated = np.zeros((len(rows.batch), len(edges)), np.float64)
    if len(edges) and len(full):
        at = places[full][:, None] + np.arange(len(edges))
        cumulated[full] = np.cumsum(ints(items)[at], axis=1)
    wanted = np.zeros(len(rows.batch), bool)
    wanted[full] = True
    wanted[chosen[stale[chosen]]] = True
    for number, edge in enumerate(edges.tolist()):
        if edge != float("inf"):
            values = np.where(stale, STALE, cumulated[:, number])
            yield _part(rows, values, wanted, "_bucket", {"le": print_number(edge)})
    # A histogram without buckets has the one that takes everything.
    everything = np.zeros(len(rows.batch), bool)
    everything[chosen] = True
    yield _part(rows, np.where(stale, STALE, totals), everything, "_bucket", {"le": "+Inf"})


def _part(
    rows: ShapedRows, values: Floats, wanted: Mask, suffix: str, extra: dict[str, str] | None = None
) -> SamplePart:
    found = replace(rows.part, values=np.asarray(values, np.float64)).where(wanted)
    return replace(found, labels=with_name(found.labels, suffix, extra))


def _alike(places: Ints, bounds: Floats) -> Iterator[tuple[Ints, int]]:
    """Yields the rows that have the same bounds, with how many these are."""
    lengths = np.diff(places)
    number = np.arange(len(bounds)) - np.repeat(places[:-1], lengths)
    hashes = mixed(mixed(bounds.view(np.uint64), np.uint64(7)), number.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    of_rows = mixed(sums[places[1:]] - sums[places[:-1]], np.uint64(11)) ^ lengths.astype(np.uint64)
    _, group = np.unique(of_rows, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    for chosen in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(chosen):
            yield chosen, int(lengths[chosen[0]])
