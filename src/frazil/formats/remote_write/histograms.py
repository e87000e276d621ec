"""Turns native histograms of Prometheus into histograms of OpenTelemetry.

Exponential buckets have the same bounds in both, because schema and scale are the same number. But bucket `i` of
Prometheus ends at `base ** i`, where that of OpenTelemetry begins. Histograms with custom bounds become explicit
histograms. Counts that came as floats stay floats, in columns of their own. Histograms are few compared with samples,
and converted one by one.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_UNSPECIFIED,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
)

from frazil.errors import RequestError
from frazil.formats.otlp.metrics import NATIVE, SCHEMA
from frazil.formats.otlp.points import EXPONENTIAL, HISTOGRAM, TOO_BIG
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.scopes import Columns

STALE = 0x7FF0000000000002
"""The bits of the number that marks the end of a series."""
MOST_BUCKETS = 10_000
"""The most buckets of one side, including the empty ones between."""
MOST_TOGETHER = 1 << 24
"""The most buckets of all histograms that are decoded together. A few bytes can stand for many empty buckets."""

_SCHEMAS = range(-9, 53)
CUSTOM = -53
"""The schema of histograms with custom bounds."""
_HINTS = ("unknown", "reset", "not_reset", "gauge")
_GAUGE = _HINTS.index("gauge")
"""The hint of histograms that do not count from a start."""
_FLOAT = "_double"
"""The suffix of the columns for counts that are floats."""
_LISTS = tuple(
    name + kind
    for name in ("bucket_counts", "positive_bucket_counts", "negative_bucket_counts")
    for kind in ("", _FLOAT)
)
_FLOATS = {field.name for field in NATIVE}
_LARGEST = 2**63 - 1
_INDEXES = range(-(2**31), 2**31)


class Histograms(NamedTuple):
    columns: Columns
    """The columns without the times."""
    milliseconds: Ints
    starts: Ints
    """This says when they began to count, in milliseconds; 0 where that is unknown."""
    series: Ints
    """The index of the series of each histogram."""
    rejected: dict[str, list[int]]
    """The series of histograms that no columns can hold, by reason."""


class _Unfit(Exception):
    """Raised when a histogram cannot be stored; the message says why."""


def histograms_of(lists: pa.ListArray, kind: type[Message]) -> Histograms:
    """Converts lists of serialized histograms, one list for each series."""
    rows: list[dict[str, Any]] = []
    series: list[int] = []
    milliseconds: list[int] = []
    starts: list[int] = []
    rejected: defaultdict[str, list[int]] = defaultdict(list)
    buckets = 0
    for owner, data in zip(pc.list_parent_indices(lists).to_pylist(), lists.flatten().to_pylist(), strict=True):
        histogram = kind.FromString(data)
        try:
            row = _row(histogram)
        except _Unfit as problem:
            rejected[str(problem)].append(owner)
            continue
        rows.append(row)
        series.append(owner)
        milliseconds.append(histogram.timestamp)
        starts.append(getattr(histogram, "start_timestamp", 0))
        buckets += sum(len(row.get(name, ())) for name in _LISTS)
        if buckets > MOST_TOGETHER:
            raise RequestError(f"The histograms have more than {MOST_TOGETHER:,} buckets. Send fewer at a time.")
    times, began, owners = (np.array(each, np.int64) for each in (milliseconds, starts, series))
    return Histograms(_columns(rows), times, began, owners, rejected)


def _columns(rows: list[dict[str, Any]]) -> Columns:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pa.array([row.get(name) for row in rows], SCHEMA.field(name).type) for name in names}


def _row(histogram: Message) -> dict[str, Any]:
    count_field = histogram.WhichOneof("count") or "count_int"
    whole = count_field == "count_int"
    common = {
        "aggregation_temporality": _temporality(histogram),
        "flags": DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK if is_stale(histogram.sum) else 0,
        "count": _count(getattr(histogram, count_field)),
        "sum": histogram.sum,
        "scale": histogram.schema,
        "counter_reset_hint": _HINTS[histogram.reset_hint] if histogram.reset_hint in range(4) else _HINTS[0],
    }
    positive = _buckets(histogram.positive_spans, _counts(histogram, "positive", whole))
    negative = _buckets(histogram.negative_spans, _counts(histogram, "negative", whole))
    zeros = _count(histogram.zero_count_int if whole else histogram.zero_count_float)
    if histogram.schema == CUSTOM:
        if negative or zeros:
            raise _Unfit("a histogram with bounds of its own, and other buckets beside")
        row = {**common, "metric_type": HISTOGRAM, **_explicit(histogram.custom_values, positive)}
    elif histogram.schema in _SCHEMAS:
        row = {
            **common,
            "metric_type": EXPONENTIAL,
            "zero_count": zeros,
            "zero_threshold": histogram.zero_threshold,
            **_exponential("positive", positive),
            **_exponential("negative", negative),
        }
    else:
        raise _Unfit(f"a histogram of a schema that is none of -9 to 52 and {CUSTOM}")
    return row if whole else {name + _FLOAT if name + _FLOAT in _FLOATS else name: row[name] for name in row}


def is_stale(number: float) -> bool:
    return struct.pack("<d", number) == struct.pack("<Q", STALE)


def _temporality(histogram: Message) -> int:
    gauge = histogram.reset_hint == _GAUGE
    return AGGREGATION_TEMPORALITY_UNSPECIFIED if gauge else AGGREGATION_TEMPORALITY_CUMULATIVE


def _count(number: float) -> float:
    """Checks a count: an integer that a column can hold, or any float that is not negative."""
    if number < 0:
        raise _Unfit("a histogram with counts below zero")
    if isinstance(number, int) and number > _LARGEST:
        raise _Unfit(TOO_BIG)
    return number


def _counts(histogram: Message, side: str, whole: bool) -> list[float]:
    """Returns the counts of the buckets that were sent."""
    given: Iterable[float] = getattr(histogram, f"{side}_counts")
    if whole:
        given = accumulate(getattr(histogram, f"{side}_deltas"))
    return [_count(each) for each in given]


class _Buckets(NamedTuple):
    first: int
    """The index of the first bucket."""
    counts: list[float]
    """The counts of all buckets from the first to the last."""


def _buckets(spans: Sequence[Message], counts: list[float]) -> _Buckets | None:
    """Fills the gaps between spans, which are runs of buckets, each given by its distance from the run before."""
    if sum(span.length for span in spans) != len(counts):
        raise _Unfit("a histogram with more or fewer buckets than its spans have")
    indexes: list[int] = []
    index = 0
    for number, span in enumerate(spans):
        if number and span.offset < 0:
            raise _Unfit("a histogram with spans that overlap")
        index += span.offset
        indexes.extend(range(index, index + span.length))
        index += span.length
    if not indexes:
        return None
    first = indexes[0]
    if indexes[-1] - first >= MOST_BUCKETS:
        raise _Unfit(f"a histogram of more than {MOST_BUCKETS:,} buckets, with the empty ones in between")
    found: list[float] = [0] * (indexes[-1] - first + 1)
    for place, count in zip(indexes, counts, strict=True):
        found[place - first] = count
    return _Buckets(first, found)


def _exponential(side: str, buckets: _Buckets | None) -> dict[str, Any]:
    if buckets is None:
        return {}
    offset = buckets.first - 1
    if offset not in _INDEXES:
        raise _Unfit("a histogram with buckets beyond all numbers")
    return {f"{side}_offset": offset, f"{side}_bucket_counts": buckets.counts}


def _explicit(bounds: Sequence[float], buckets: _Buckets | None) -> dict[str, Any]:
    """Returns the columns of an explicit histogram. The bucket after the last bound has all larger numbers."""
    first, counts = buckets or _Buckets(0, [])
    after = len(bounds) + 1 - first - len(counts)
    if first < 0 or after < 0:
        raise _Unfit("a histogram with buckets for which there are no bounds")
    return {"explicit_bounds": list(bounds), "bucket_counts": [0] * first + counts + [0] * after}
