"""Turns rows with exponential or custom buckets into native histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from frazil.formats.remote_write.histograms import CUSTOM
from frazil.query.promql.histograms.histogram import EMPTY, HIGHEST_SCHEMA, Buckets, Hint, Histogram
from frazil.query.promql.histograms.merge import reduce_schema
from frazil.query.promql.series.source import STALE
from frazil.query.promql.storage.arrow_columns import Floats, Ints, floats, ints, list_values, valid
from frazil.query.promql.storage.sample_parts import SamplePart, ShapedRows

COLUMNS = (
    "count",
    "count_double",
    "sum",
    "scale",
    "zero_count",
    "zero_count_double",
    "zero_threshold",
    "positive_offset",
    "positive_bucket_counts",
    "positive_bucket_counts_double",
    "negative_offset",
    "negative_bucket_counts",
    "negative_bucket_counts_double",
    "bucket_counts",
    "bucket_counts_double",
    "explicit_bounds",
    "counter_reset_hint",
    "aggregation_temporality",
)
_HINTS = {"unknown": Hint.UNKNOWN, "reset": Hint.RESET, "not_reset": Hint.NOT_RESET, "gauge": Hint.GAUGE}
_UNSPECIFIED = 0


def native_series(rows: ShapedRows) -> tuple[SamplePart, SamplePart]:
    """Returns the histograms, and the markers for where their series end."""
    stale = rows.stale
    values = np.empty(len(rows.batch), object)
    values[:] = _histograms(rows.batch)
    markers = replace(rows.part, values=np.where(stale, STALE, np.nan)).where(stale)
    return replace(rows.part, values=values).where(~stale), markers


def _histograms(batch: pa.RecordBatch) -> list[Histogram]:
    counts, zeros = _numbers(batch, "count"), _numbers(batch, "zero_count")
    sums, widths = floats(batch.column("sum")).tolist(), floats(batch.column("zero_threshold"))
    thresholds = np.where(np.isnan(widths), 0.0, widths).tolist()
    scales, hints = ints(batch.column("scale")).tolist(), _hints(batch)
    positive, negative, custom = (
        _Side.of(batch, "positive_"),
        _Side.of(batch, "negative_"),
        _Side.of(batch, ""),
    )
    bound_places, bounds = list_values(batch.column("explicit_bounds"))
    limits = floats(bounds)
    known: dict[bytes, tuple[float, ...]] = {}
    found = []
    for row in range(len(batch)):
        if scales[row] == CUSTOM:
            edges = limits[bound_places[row] : bound_places[row + 1]]
            shared = known.setdefault(edges.tobytes(), tuple(edges.tolist()))
            found.append(
                Histogram(
                    CUSTOM, counts[row], sums[row], positive=custom.buckets(row), bounds=shared, hint=hints[row]
                )
            )
            continue
        histogram = Histogram(
            scales[row],
            counts[row],
            sums[row],
            thresholds[row],
            zeros[row],
            positive.buckets(row),
            negative.buckets(row),
            hint=hints[row],
        )
        found.append(reduce_schema(histogram, HIGHEST_SCHEMA) if scales[row] > HIGHEST_SCHEMA else histogram)
    return found


class _Side:
    """Has the counts of buckets of all rows: whole numbers, or floats where these are."""

    def __init__(self, firsts: Ints, columns: Sequence[tuple[Ints, Floats]]) -> None:
        self._firsts = firsts
        self._columns = columns

    @classmethod
    def of(cls, batch: pa.RecordBatch, side: str) -> _Side:
        # Bucket i of Prometheus ends where that of OpenTelemetry begins. Custom buckets are numbered from 0.
        firsts = ints(batch.column(f"{side}offset")) + 1 if side else np.zeros(len(batch), np.int64)
        columns = []
        for name in (f"{side}bucket_counts", f"{side}bucket_counts_double"):
            if name in batch.schema.names:
                places, items = list_values(batch.column(name))
                columns.append((places, floats(items)))
        return cls(firsts, columns)

    def buckets(self, row: int) -> Buckets:
        for places, counts in self._columns:
            first, last = int(places[row]), int(places[row + 1])
            if last > first:
                here = counts[first:last]
                filled = np.flatnonzero(here)
                return Buckets(filled + self._firsts[row], here[filled])
        return EMPTY


def _numbers(batch: pa.RecordBatch, name: str) -> list[float]:
    """Returns counts: whole numbers, or floats where these are."""
    found = ints(batch.column(name)).astype(np.float64)
    if f"{name}_double" in batch.schema.names:
        doubles = batch.column(f"{name}_double")
        found = np.where(valid(doubles), floats(doubles), found)
    return list(found.tolist())


def _hints(batch: pa.RecordBatch) -> list[Hint]:
    """Returns what is known of resets. Rows that are older than the column are gauges if they have no temporality."""
    temporality = ints(batch.column("aggregation_temporality"))
    if "counter_reset_hint" not in batch.schema.names:
        return [Hint.GAUGE if each == _UNSPECIFIED else Hint.UNKNOWN for each in temporality.tolist()]
    texts = batch.column("counter_reset_hint").to_pylist()
    return [
        _HINTS.get(text, Hint.UNKNOWN) if text is not None else Hint.GAUGE if each == _UNSPECIFIED else Hint.UNKNOWN
        for text, each in zip(texts, temporality.tolist(), strict=True)
    ]
