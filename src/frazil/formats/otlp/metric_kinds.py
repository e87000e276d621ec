"""What metrics say of themselves: their names, and how they sum up what they measured.

The same metrics come again and again, so their rows are remembered (`known`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from frazil.formats.otlp.points import EXPONENTIAL, GAUGE, HISTOGRAM, KINDS, SUM, Data
from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.known_rows import LONG, Known
from frazil.formats.telemetry.lists import borders
from frazil.formats.telemetry.messages import decode
from frazil.formats.telemetry.prometheus_names import metric_name
from frazil.formats.telemetry.repetition import spread
from frazil.formats.telemetry.runs import Ints, Runs, codes_of, distinct
from frazil.formats.telemetry.scopes import Columns, named

TEMPORAL = (SUM, HISTOGRAM, EXPONENTIAL)
"""The kinds that say whether a point counts from the start, or from the point before."""


class _Described(NamedTuple):
    kind: str
    name: str
    description: str
    unit: str
    metadata: tuple[bytes, ...]
    """Serialized pairs."""
    monotonic: bool
    temporality: int

    @property
    def width(self) -> int:
        """About how many bytes it has."""
        return sum(map(len, (self.name, self.description, self.unit, *self.metadata)))

    @property
    def prometheus_name(self) -> str:
        counter = self.monotonic and self.temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        return metric_name(self.name, self.unit, counter, self.kind == GAUGE)


class Description(NamedTuple):
    """What metrics say of themselves."""

    said: list[_Described]
    """Each once."""
    rows: pa.StructArray
    """Of what is said."""
    places: Ints
    """Which of the rows each has."""

    def columns(self, runs: Runs, *, dictionaries: bool = False) -> Columns:
        """For points in runs, each of which is of one of the metrics."""
        if dictionaries:
            return spread(self.rows, self.places[runs.places])
        if len(runs.places) < len(runs.first) * LONG:
            found = self.rows.take(pa.array(self.places[runs.places]))
        else:
            found = _METRICS.repeated([self.said[at] for at in self.places.tolist()], runs.lengths.tolist())
        return dict(zip((field.name for field in found.type), found.flatten(), strict=True))


def description_of(metrics: pa.StructArray, data: list[Data], owners: Ints, kinds: Ints) -> Description:
    """Of those metrics that are `owners`, for points of these of the `KINDS`."""
    temporality, monotonic = np.zeros(len(owners), np.int64), np.zeros(len(owners), bool)
    for each in data:
        if each.kind in TEMPORAL:
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
        _Described,
        [KINDS[kind] for kind in kinds[first].tolist()],
        *(column.take(pa.array(chosen)).to_pylist() for column in texts),
        [metadata[at] for at in chosen.tolist()],
        monotonic[first].tolist(),
        temporality[first].tolist(),
    )
    said = list(described)
    return Description(said, _METRICS.repeated(said, [1] * len(said)), places)


def _pairs(metadata: pa.ListArray) -> list[tuple[bytes, ...]]:
    """Of each metric."""
    return [()] * len(metadata) if not len(metadata.values) else [tuple(each) for each in metadata.to_pylist()]


def _rows(metrics: Sequence[_Described]) -> pa.StructArray:
    monotonic = [each.monotonic if each.kind == SUM else None for each in metrics]
    temporality = [each.temporality if each.kind in TEMPORAL else None for each in metrics]
    columns = {
        "metric_name": pa.array([each.name for each in metrics], pa.string()),
        "metric_type": pa.array([each.kind for each in metrics], pa.string()),
        "prometheus_name": pa.array([each.prometheus_name for each in metrics], pa.string()),
        "description": pa.array([each.description for each in metrics], pa.string()),
        "unit": pa.array([each.unit for each in metrics], pa.string()),
        **named("metadata", _metadata([each.metadata for each in metrics])),
        "is_monotonic": pa.array(monotonic, pa.bool_()),
        "aggregation_temporality": pa.array(temporality, pa.int32()),
    }
    return pa.StructArray.from_arrays(columns.values(), columns)


def _metadata(serialized: Sequence[tuple[bytes, ...]]) -> attributes.Attributes:
    lists = pa.array(serialized, pa.list_(pa.binary()))
    pairs = decode(KeyValue, lists.flatten()).to_struct_array()
    return attributes.of_lists(pa.ListArray.from_arrays(pa.array(borders(lists), pa.int32()), pairs))


_METRICS = Known(_rows, lambda metric: metric.width)
