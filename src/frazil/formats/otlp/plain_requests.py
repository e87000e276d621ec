"""Checks quickly, without making rows, whether a request is plain and may be stored as it came.

A request is *plain* if nothing has to be decided record by record: each record has its time and valid ids, and none
is over a limit. All other requests are turned into rows before they are stored. Whatever visits all records is a loop
inside the interpreter, because turning a request into columns would take far longer.

The Protobuf runtime must have parsed a request before it is called plain. It checks everything, whereas the decoder
into columns, which makes the rows later, trusts what it is given.
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
"""The most bytes of a request that may be stored as it came, and of all its rows."""
MIN_RECORD_BYTES, MIN_SCOPE_BYTES = 16, 32
"""The least bytes of a record and of a scope, on average. A denser request could take long to check."""
GROWTH = 16
"""No record has more bytes as a row than this factor times its bytes in the request, plus `ROW_BYTES`. A control
character takes six bytes in JSON, and a reference of four bytes about thirty."""
MIN_ATTRIBUTE_BYTES = 2
"""The least bytes of an attribute."""

_LATEST = _MOST_COUNT = 2**63 - 1

_attributes, _trace_id, _span_id, _parent_span_id = map(
    attrgetter, ("attributes", "trace_id", "span_id", "parent_span_id")
)
_time, _start_time = attrgetter("time_unix_nano"), attrgetter("start_time_unix_nano")


class RowEstimate(NamedTuple):
    rows: int
    nbytes: int
    """The approximate size of the rows."""


class RecordLimits(NamedTuple):
    """The limits for a record."""

    nbytes: int
    attributes: int
    append_nbytes: int = MAX_ROWS_BYTES
    """The most bytes of all rows of a request."""


class _NotPlain(Exception):
    """Raised when a request has to be checked record by record."""


Check = Callable[[list[Any]], None]
"""Checks a non-empty list of records. Raises `_NotPlain`."""


class _ScopeRecords(NamedTuple):
    """The records of one scope, or the points of one metric."""

    records: Any
    width: int
    """The approximate bytes that each record gets from its resource, scope and metric."""
    attributes: int
    """The number of attributes of the resource or of the scope, whichever has more."""
    check: Check


RecordsByScope = Callable[[Any, int], Iterator[_ScopeRecords]]
"""Yields the records of a request of so many bytes, scope by scope. Raises `_NotPlain`."""


def estimate_rows(
    message: Message, body: bytes, by_scope: RecordsByScope, limits: RecordLimits
) -> RowEstimate | None:
    """Returns the number and the approximate size of the rows of a plain request; None if it is not plain."""
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
        # The request may have points of several kinds in one metric, of which the Protobuf runtime keeps only the
        # last.
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
    """Returns the approximate bytes that each record gets from its resource or scope, and how many attributes that
    has."""
    return above.ByteSize() + len(entry.schema_url), len(above.attributes)


def _description_size(metric: Any) -> int:
    """Returns the approximate bytes that each point gets from its metric."""
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
    """Returns a check for points that have counts, and lists of counts, of these names."""
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
"""The checks for points of the kinds that have counts."""
