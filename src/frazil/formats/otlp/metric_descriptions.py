"""Turns the descriptions of metrics (name, unit, type, temporality, metadata) into columns.

The same metrics come again and again, so their rows are cached (`row_cache`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from frazil.formats.otlp.points import EXPONENTIAL, GAUGE, HISTOGRAM, KINDS, SUM, MetricData
from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.lists import offsets_of
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.prometheus_names import metric_name
from frazil.formats.telemetry.repeated_columns import repeat_rows
from frazil.formats.telemetry.row_cache import LONG, RowCache
from frazil.formats.telemetry.runs import Ints, Runs, codes_of, distinct
from frazil.formats.telemetry.scopes import Columns, attribute_columns

WITH_TEMPORALITY = (SUM, HISTOGRAM, EXPONENTIAL)
"""The kinds of metrics that say whether a point counts from the start or from the point before."""


class _Metric(NamedTuple):
    kind: str
    name: str
    description: str
    unit: str
    metadata: tuple[bytes, ...]
    """The serialized key-value pairs."""
    monotonic: bool
    temporality: int

    @property
    def width(self) -> int:
        """The approximate size in bytes."""
        return sum(map(len, (self.name, self.description, self.unit, *self.metadata)))

    @property
    def prometheus_name(self) -> str:
        counter = self.monotonic and self.temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        return metric_name(self.name, self.unit, counter, self.kind == GAUGE)


class MetricDescriptions(NamedTuple):
    """The descriptions of the metrics of some requests."""

    metrics: list[_Metric]
    """The distinct metrics."""
    rows: pa.StructArray
    """One row of columns for each distinct metric."""
    numbers: Ints
    """This says which of the rows each metric has."""

    def columns(self, runs: Runs, *, dictionaries: bool = False) -> Columns:
        """Returns the columns for points. Each run of points belongs to one metric."""
        if dictionaries:
            return repeat_rows(self.rows, self.numbers[runs.places])
        if len(runs.places) < len(runs.first) * LONG:
            found = self.rows.take(pa.array(self.numbers[runs.places]))
        else:
            found = _ROW_CACHE.repeated([self.metrics[at] for at in self.numbers.tolist()], runs.lengths.tolist())
        return dict(zip((field.name for field in found.type), found.flatten(), strict=True))


def describe_metrics(
    metrics: pa.StructArray, data: list[MetricData], owners: Ints, kinds: Ints
) -> MetricDescriptions:
    """Describes the metrics at the positions `owners`. `kinds` has the index in `KINDS` of the points of each."""
    temporality, monotonic = np.zeros(len(owners), np.int64), np.zeros(len(owners), bool)
    for each in data:
        if each.kind in WITH_TEMPORALITY:
            here = kinds == KINDS.index(each.kind)
            at = np.searchsorted(each.metrics, owners[here])
            temporality[here] = each.structs.field("aggregation_temporality").to_numpy()[at]
            if each.kind == SUM:
                monotonic[here] = each.structs.field("is_monotonic").to_numpy(zero_copy_only=False)[at]
    texts = [metrics.field(name) for name in ("name", "description", "unit")]
    metadata = _pairs(metrics.field("metadata"))
    codes = list(map(codes_of, texts))
    if any(metadata):
        numbers = {pairs: number for number, pairs in enumerate(dict.fromkeys(metadata))}
        codes.append(np.array([numbers[pairs] for pairs in metadata], np.int64))
    first, places = distinct(*(each[owners] for each in codes), kinds, monotonic.astype(np.int64), temporality)
    chosen = owners[first]
    described = map(
        _Metric,
        [KINDS[kind] for kind in kinds[first].tolist()],
        *(column.take(pa.array(chosen)).to_pylist() for column in texts),
        [metadata[at] for at in chosen.tolist()],
        monotonic[first].tolist(),
        temporality[first].tolist(),
    )
    found = list(described)
    return MetricDescriptions(found, _ROW_CACHE.repeated(found, [1] * len(found)), places)


def _pairs(metadata: pa.ListArray) -> list[tuple[bytes, ...]]:
    """Returns the serialized metadata of each metric."""
    return [()] * len(metadata) if not len(metadata.values) else [tuple(each) for each in metadata.to_pylist()]


def _rows(metrics: Sequence[_Metric]) -> pa.StructArray:
    monotonic = [each.monotonic if each.kind == SUM else None for each in metrics]
    temporality = [each.temporality if each.kind in WITH_TEMPORALITY else None for each in metrics]
    columns = {
        "metric_name": pa.array([each.name for each in metrics], pa.string()),
        "metric_type": pa.array([each.kind for each in metrics], pa.string()),
        "prometheus_name": pa.array([each.prometheus_name for each in metrics], pa.string()),
        "description": pa.array([each.description for each in metrics], pa.string()),
        "unit": pa.array([each.unit for each in metrics], pa.string()),
        **attribute_columns("metadata", _metadata([each.metadata for each in metrics])),
        "is_monotonic": pa.array(monotonic, pa.bool_()),
        "aggregation_temporality": pa.array(temporality, pa.int32()),
    }
    return pa.StructArray.from_arrays(columns.values(), columns)


def _metadata(serialized: Sequence[tuple[bytes, ...]]) -> attributes.Attributes:
    lists = pa.array(serialized, pa.list_(pa.binary()))
    pairs = decode(KeyValue, lists.flatten()).to_struct_array()
    return attributes.of_lists(pa.ListArray.from_arrays(pa.array(offsets_of(lists), pa.int32()), pairs))


_ROW_CACHE = RowCache(_rows, lambda metric: metric.width)
