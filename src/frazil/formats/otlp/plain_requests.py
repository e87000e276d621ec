"""What can be told of a request at a glance, without making rows of it.

A request is *plain* if nothing about it has to be decided record by record: each has its time and valid ids, none is
over a limit. All others are made rows before they are stored. Whatever looks at all records is a loop within
the interpreter: to make columns of a request would take far longer.

A request must have been read by the Protobuf runtime, which trusts nothing, before it is called plain. The decoder
into columns, which makes rows of it later, trusts what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from google.protobuf.message import Message

from frazil.config.sections.section import MIB
from frazil.formats.otlp.points import EXPONENTIAL, HISTOGRAM, SUMMARY
from frazil.formats.otlp.record_sizes import largest_record
from frazil.formats.telemetry.rows import ROW_BYTES

MAX_BODY_BYTES, MAX_ROWS_BYTES = 4 * MIB, 8 * MIB
"""Bytes of a request that may be stored as it came, and of all its rows."""
MIN_RECORD_BYTES, MIN_SCOPE_BYTES = 16, 32
"""Bytes that a record has at least, on the average, and what several of them share: what is denser could take long to
look at."""
GROWTH = 16
"""No record has more bytes as a row than so many times those of its request, but for `ROW_BYTES`: a control character
is six in JSON, a reference of four bytes about thirty."""
MIN_ATTRIBUTE_BYTES = 2
"""That an attribute has at least."""

_LATEST = _MOST_COUNT = 2**63 - 1

_attributes, _trace_id, _span_id, _parent_span_id = map(
    attrgetter, ("attributes", "trace_id", "span_id", "parent_span_id")
)
_time, _start_time = attrgetter("time_unix_nano"), attrgetter("start_time_unix_nano")


class RowEstimate(NamedTuple):
    rows: int
    nbytes: int
    """About what the rows take."""


class RecordLimits(NamedTuple):
    """What a record may have."""

    nbytes: int
    attributes: int
    append_nbytes: int = MAX_ROWS_BYTES
    """What all records of a request may have, as rows."""


class _NotPlain(Exception):
    """Raised when a request has to be looked at record by record."""


Check = Callable[[list[Any]], None]
"""Of records, of which there is at least one. Raises `_NotPlain`."""


class _ScopeRecords(NamedTuple):
    """Records that share what is above them."""

    records: Any
    width: int
    """About how many bytes each has of that."""
    attributes: int
    """Of the resource or of the scope: of that which has more."""
    check: Check


RecordsByScope = Callable[[Any, int], Iterator[_ScopeRecords]]
"""Of a request that has so many bytes. Raises `_NotPlain`."""


def estimate_rows(
    message: Message, body: bytes, by_scope: RecordsByScope, limits: RecordLimits
) -> RowEstimate | None:
    """Of a request with this body; None if it is not plain."""
    if len(body) > MAX_BODY_BYTES:
        return None
    try:
        small = GROWTH * len(body) + ROW_BYTES <= limits.nbytes
        largest = len(body) if small else largest_record(type(message), body)
        counted = largest > MIN_ATTRIBUTE_BYTES * limits.attributes
        rows, nbytes = 0, len(body)
        for number, (records, width, most, check) in enumerate(by_scope(message, len(body))):
            rows += len(records)
            nbytes += len(records) * (width + ROW_BYTES)
            if rows * MIN_RECORD_BYTES > len(body) or number * MIN_SCOPE_BYTES > len(body):
                return None
            if most > limits.attributes or GROWTH * min(largest + width, len(body)) + ROW_BYTES > limits.nbytes:
                return None
            if records:
                found = list(records)
                check(found)
                if counted and max(map(len, map(_attributes, found))) > limits.attributes:
                    return None
    except _NotPlain:
        return None
    return RowEstimate(rows, nbytes) if rows and nbytes <= min(MAX_ROWS_BYTES, limits.append_nbytes) else None


def log_records(request: Any, size: int) -> Iterator[_ScopeRecords]:
    for resource in _check_few(request.resource_logs, size):
        width, attributes = _shared_size(resource.resource, resource)
        for scope in resource.scope_logs:
            own, more = _shared_size(scope.scope, scope)
            yield _ScopeRecords(scope.log_records, width + own, max(attributes, more), _check_logs)


def spans(request: Any, size: int) -> Iterator[_ScopeRecords]:
    for resource in _check_few(request.resource_spans, size):
        width, attributes = _shared_size(resource.resource, resource)
        for scope in resource.scope_spans:
            own, more = _shared_size(scope.scope, scope)
            yield _ScopeRecords(scope.spans, width + own, max(attributes, more), _check_spans)


def data_points(request: Any, size: int) -> Iterator[_ScopeRecords]:
    if request.ByteSize() != size:
        # It may have points of several kinds in one metric, of which the Protobuf runtime shows but one.
        raise _NotPlain
    for resource in _check_few(request.resource_metrics, size):
        width, attributes = _shared_size(resource.resource, resource)
        for scope in _check_few(resource.scope_metrics, size):
            own, more = _shared_size(scope.scope, scope)
            most = max(attributes, more)
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                points = getattr(metric, kind).data_points if kind else ()
                yield _ScopeRecords(
                    points, width + own + _description_size(metric), most, _CHECKS.get(kind, _check_points)
                )


def _check_few(scopes: Any, size: int) -> Any:
    if len(scopes) * MIN_SCOPE_BYTES > size:
        raise _NotPlain
    return scopes


def _shared_size(above: Any, entry: Any) -> tuple[int, int]:
    """About how many bytes each record has of its resource, or of its scope, and how many attributes that has."""
    return above.ByteSize() + len(entry.schema_url), len(above.attributes)


def _description_size(metric: Any) -> int:
    """And of its metric."""
    texts = len(metric.name) + len(metric.description) + len(metric.unit)
    width: int = texts + sum(pair.ByteSize() for pair in metric.metadata)
    return width


def _check_times(times: Iterable[int]) -> None:
    found = set(times)
    if 0 in found or max(found) > _LATEST:
        raise _NotPlain


def _check_ids(ids: Iterable[bytes], size: int) -> None:
    found = set(ids)
    if bytes(size) in found or not set(map(len, found)) <= {0, size}:
        raise _NotPlain


def _check_logs(records: list[Any]) -> None:
    _check_times(map(_time, records))
    _check_ids(map(_trace_id, records), 16)
    _check_ids(map(_span_id, records), 8)


def _check_spans(records: list[Any]) -> None:
    _check_times(map(_start_time, records))
    _check_ids(map(_trace_id, records), 16)
    _check_ids(map(_span_id, records), 8)
    _check_ids(map(_parent_span_id, records), 8)


def _check_points(points: list[Any]) -> None:
    _check_times(map(_time, points))


def _counting(*names: str) -> Check:
    """Checks points that have counts, and lists of counts, of these names."""
    single = [attrgetter(name) for name in names if not name.endswith("s")]
    lists = [attrgetter(name) for name in names if name.endswith("s")]

    def check(points: list[Any]) -> None:
        found = chain(*(map(each, points) for each in single))
        in_lists = chain.from_iterable(chain(*(map(each, points) for each in lists)))
        if max(chain(found, in_lists), default=0) > _MOST_COUNT:
            raise _NotPlain
        _check_points(points)

    return check


_CHECKS: dict[str | None, Check] = {
    SUMMARY: _counting("count"),
    HISTOGRAM: _counting("count", "bucket_counts"),
    EXPONENTIAL: _counting("count", "zero_count", "positive.bucket_counts", "negative.bucket_counts"),
}
"""Of points of kinds that have counts."""
