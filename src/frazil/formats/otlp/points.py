"""Turns data points of all five kinds of metrics into the same columns, and rows into data points again.

A column is null in rows of a kind that does not have it, and where a point leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Histogram,
    HistogramDataPoint,
    NumberDataPoint,
    Summary,
    SummaryDataPoint,
)

from frazil.formats.telemetry import attributes, exemplars
from frazil.formats.telemetry.exemplars import EXEMPLARS
from frazil.formats.telemetry.fields import TIME, counts, is_zero, times
from frazil.formats.telemetry.lists import are_empty, flat, joined_bytes
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.row_messages import Row, pairs
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.scopes import Columns, attribute_columns
from frazil.log.schema.nulls import are_null, nulls

GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = KINDS = (
    "gauge",
    "sum",
    "histogram",
    "exponential_histogram",
    "summary",
)

_RARE: dict[str, type[Message]] = {SUMMARY: Summary, EXPONENTIAL: ExponentialHistogram, HISTOGRAM: Histogram}
"""The kinds whose messages are first decoded as bytes, because most requests have none."""
_COUNTS = pa.list_(pa.int64())
_QUANTILES = pa.list_(pa.struct([pa.field("quantile", pa.float64()), pa.field("value", pa.float64())]))

_OWN = [
    pa.field("value_double", pa.float64()),
    pa.field("value_int", pa.int64()),
    pa.field("count", pa.int64()),
    pa.field("sum", pa.float64()),
    pa.field("min", pa.float64()),
    pa.field("max", pa.float64()),
    pa.field("bucket_counts", _COUNTS),
    pa.field("explicit_bounds", pa.list_(pa.float64())),
    pa.field("scale", pa.int32()),
    pa.field("zero_count", pa.int64()),
    pa.field("zero_threshold", pa.float64()),
    pa.field("positive_offset", pa.int32()),
    pa.field("positive_bucket_counts", _COUNTS),
    pa.field("negative_offset", pa.int32()),
    pa.field("negative_bucket_counts", _COUNTS),
    pa.field("quantile_values", _QUANTILES),
    pa.field("exemplars", EXEMPLARS),
]
"""The columns that only some kinds have."""
FIELDS = [
    pa.field("timestamp", TIME, nullable=False),
    pa.field("start_timestamp", TIME),
    pa.field("flags", pa.int64()),
    *_OWN,
    *attributes.fields("attributes"),
]

_MOST = np.uint64(2**63 - 1)
TOO_BIG = f"a count above {_MOST}"


class MetricData(NamedTuple):
    """The data of those metrics that are of one kind."""

    kind: str
    structs: pa.StructArray
    metrics: Ints
    """The position of the metric of each; ascending."""


class Points(NamedTuple):
    columns: Columns
    metrics: Ints
    """The position of the metric of each point."""
    kinds: Ints
    """The index in `KINDS` of each point."""
    timeless: npt.NDArray[np.bool_]
    """True for points without a time of their own."""
    rejected: Ints
    """The metric of each rejected point, whose counts no column can hold."""

    def take(self, places: Ints) -> Points:
        at = pa.array(places)
        columns = {name: column if _are_alike(column) else column.take(at) for name, column in self.columns.items()}
        return Points(columns, self.metrics[places], self.kinds[places], self.timeless[places], self.rejected)


class _PointsOfKind(NamedTuple):
    """The points of one kind."""

    kind: str
    points: pa.StructArray
    metrics: Ints
    rejected: Ints


def _are_alike(column: pa.Array) -> bool:
    """Returns whether all values are null, or all are empty lists."""
    return are_null(column) or are_empty(column)


def data_of(metrics: pa.StructArray) -> list[MetricData]:
    """Returns the data of decoded metrics: one entry for each kind that is present, and at least one."""
    found = []
    for kind, message in _RARE.items():
        if len((lists := metrics.field(kind)).values):
            serialized = joined_bytes(lists)
            owners = np.flatnonzero(np.asarray(serialized.is_valid()))
            decoded = decode(message, serialized.drop_null())
            found.append(MetricData(kind, decoded.to_struct_array(), owners))
    for kind in (SUM, GAUGE):
        if (structs := metrics.field(kind)).null_count < len(metrics) or not (found or kind == SUM):
            found.append(MetricData(kind, structs, np.arange(len(metrics))))
    return found[::-1]


def points_of(every: list[MetricData], requests: Ints, arrival_ns: int, *, dictionaries: bool = False) -> Points:
    """Returns the points of metrics: request by request, and within each kind by kind. `requests` has the request of
    each metric."""
    groups = [_points_of_kind(data) for data in every]
    lengths = [len(group.points) for group in groups]
    own = [_COLUMNS[kind](points) for kind, points, *_ in groups]
    time = _field(groups, "time_unix_nano")
    found = Points(
        {
            "timestamp": times(time, arrival_ns),
            "start_timestamp": times(_field(groups, "start_time_unix_nano"), None),
            "flags": counts(_field(groups, "flags")),
            **{field.name: _joined(own, lengths, field) for field in _OWN},
            **attribute_columns(
                "attributes", attributes.of_lists(_field(groups, "attributes"), dictionaries=dictionaries)
            ),
        },
        np.concatenate([group.metrics for group in groups]),
        np.repeat([KINDS.index(group.kind) for group in groups], lengths),
        is_zero(time),
        np.concatenate([group.rejected for group in groups]),
    )
    numbers = requests[found.metrics]
    return found if (numbers[1:] >= numbers[:-1]).all() else found.take(np.argsort(numbers, kind="stable"))


def _points_of_kind(data: MetricData) -> _PointsOfKind:
    points, places = flat(data.structs.field("data_points"))
    owners = data.metrics[places]
    if data.kind not in _RARE or not (beyond := _beyond(points)).any():
        return _PointsOfKind(data.kind, points, owners, owners[:0])
    return _PointsOfKind(data.kind, points.filter(pa.array(~beyond)), owners[~beyond], owners[beyond])


def _field(groups: list[_PointsOfKind], name: str) -> pa.Array:
    return _concatenated([group.points.field(name) for group in groups])


def _joined(groups: list[Columns], lengths: list[int], field: pa.Field) -> pa.Array:
    """Concatenates a column; it is null in rows of kinds that do not have it."""
    if not any(field.name in group for group in groups):
        return nulls(sum(lengths), field.type)
    return _concatenated(
        [
            group[field.name] if field.name in group else nulls(length, field.type)
            for group, length in zip(groups, lengths, strict=True)
        ]
    )


def _concatenated(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


# --- columns ---------------------------------------------------------------------------------------------------


def _of_numbers(points: pa.StructArray) -> Columns:
    return {
        "value_double": points.field("as_double"),
        "value_int": points.field("as_int"),
        "exemplars": exemplars.of_lists(points.field("exemplars")),
    }


def _of_summaries(points: pa.StructArray) -> Columns:
    return {
        "count": counts(points.field("count")),
        "sum": points.field("sum"),
        "quantile_values": points.field("quantile_values").cast(_QUANTILES),
    }


def _of_measures(points: pa.StructArray) -> Columns:
    return {
        "count": counts(points.field("count")),
        "sum": points.field("sum"),
        "min": points.field("min"),
        "max": points.field("max"),
        "exemplars": exemplars.of_lists(points.field("exemplars")),
    }


def _of_histograms(points: pa.StructArray) -> Columns:
    return {
        **_of_measures(points),
        "bucket_counts": points.field("bucket_counts").cast(_COUNTS),
        "explicit_bounds": points.field("explicit_bounds"),
    }


def _of_exponential(points: pa.StructArray) -> Columns:
    return {
        **_of_measures(points),
        "scale": points.field("scale"),
        "zero_count": counts(points.field("zero_count")),
        "zero_threshold": points.field("zero_threshold"),
        "positive_offset": pc.struct_field(points, ["positive", "offset"]),
        "positive_bucket_counts": pc.struct_field(points, ["positive", "bucket_counts"]).cast(_COUNTS),
        "negative_offset": pc.struct_field(points, ["negative", "offset"]),
        "negative_bucket_counts": pc.struct_field(points, ["negative", "bucket_counts"]).cast(_COUNTS),
    }


_COLUMNS: dict[str, Callable[[pa.StructArray], Columns]] = {
    GAUGE: _of_numbers,
    SUM: _of_numbers,
    HISTOGRAM: _of_histograms,
    EXPONENTIAL: _of_exponential,
    SUMMARY: _of_summaries,
}


def _beyond(points: pa.StructArray) -> npt.NDArray[np.bool_]:
    """Returns which points have a count that no column can hold."""
    found = np.zeros(len(points), bool)
    for name in _names(points, "count", "zero_count"):
        found |= points.field(name).to_numpy() > _MOST
    lists = [points.field(name) for name in _names(points, "bucket_counts")]
    lists += [points.field(name).field("bucket_counts") for name in _names(points, "positive", "negative")]
    for each in lists:
        wide = each.flatten().to_numpy() > _MOST
        if wide.any():
            found[pc.list_parent_indices(each).to_numpy()[wide]] = True
    return found


def _names(points: pa.StructArray, *names: str) -> Iterator[str]:
    return (name for name in names if points.type.get_field_index(name) >= 0)


# --- messages --------------------------------------------------------------------------------------------------

Point = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint


def to_point(row: Row) -> Point:
    """Turns a row into a data point again. If the point came without a time, it gets that of its arrival."""
    return _MESSAGES[row["metric_type"]](row)


def _common(row: Row) -> dict[str, Any]:
    return {
        "time_unix_nano": row["timestamp"],
        "start_time_unix_nano": row["start_timestamp"] or 0,
        "flags": row["flags"],
        "attributes": pairs(row, "attributes"),
    }


def _number(row: Row) -> NumberDataPoint:
    return NumberDataPoint(
        **_common(row),
        as_double=row["value_double"],
        as_int=row["value_int"],
        exemplars=map(exemplars.to_message, row["exemplars"]),
    )


def _histogram(row: Row) -> HistogramDataPoint:
    return HistogramDataPoint(
        **_common(row),
        **{name: row[name] for name in ("count", "sum", "min", "max", "bucket_counts", "explicit_bounds")},
        exemplars=map(exemplars.to_message, row["exemplars"]),
    )


def _exponential(row: Row) -> ExponentialHistogramDataPoint:
    return ExponentialHistogramDataPoint(
        **_common(row),
        **{name: row[name] for name in ("count", "sum", "min", "max", "scale", "zero_count", "zero_threshold")},
        positive=_buckets(row, "positive"),
        negative=_buckets(row, "negative"),
        exemplars=map(exemplars.to_message, row["exemplars"]),
    )


def _buckets(row: Row, side: str) -> ExponentialHistogramDataPoint.Buckets | None:
    offset = row[f"{side}_offset"]
    if offset is None:
        return None
    return ExponentialHistogramDataPoint.Buckets(offset=offset, bucket_counts=row[f"{side}_bucket_counts"])


def _summary(row: Row) -> SummaryDataPoint:
    values = [SummaryDataPoint.ValueAtQuantile(**each) for each in row["quantile_values"]]
    return SummaryDataPoint(**_common(row), count=row["count"], sum=row["sum"], quantile_values=values)


_MESSAGES: dict[str, Callable[[Row], Point]] = {
    GAUGE: _number,
    SUM: _number,
    HISTOGRAM: _histogram,
    EXPONENTIAL: _exponential,
    SUMMARY: _summary,
}
