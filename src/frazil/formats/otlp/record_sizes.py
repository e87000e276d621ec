"""Measures the records of a request on the wire, without decoding them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from frazil.formats.telemetry.descriptors import Name, handler_of
from frazil.formats.telemetry.lists import flat, offsets_of
from frazil.formats.telemetry.message_decoding import column_of

_DATA = ("Gauge", "Sum", "Histogram", "ExponentialHistogram", "Summary")
_RECORDS: frozenset[Name] = frozenset(
    {("ScopeLogs", "log_records"), ("ScopeSpans", "spans"), *((kind, "data_points") for kind in _DATA)}
)
"""The fields that hold lists of records, which are decoded as bytes."""


def largest_record(kind: type[Message], body: bytes) -> int:
    """Returns the bytes of the largest record. The Protobuf runtime must have parsed the request before, because the
    decoder into columns trusts what it is given."""
    batch = _handler(kind.DESCRIPTOR).array_to_record_batch(column_of([body]))
    return max((_largest(column) for column in batch.columns), default=0)


def _largest(column: pa.Array) -> int:
    """Returns the length of the longest byte string within a column."""
    if pa.types.is_binary(column.type):
        return int(np.diff(offsets_of(column)).max(initial=0))
    if pa.types.is_list(column.type):
        return _largest(flat(column)[0])
    return max((_largest(column.field(place)) for place in range(column.type.num_fields)), default=0)


@cache
def _handler(request: Descriptor) -> Any:
    """Returns a handler that decodes only records, as bytes, and the messages around them."""
    only: set[Name] = set()
    pending, seen = [request], {request.full_name}
    while pending:
        message = pending.pop()
        for field in message.fields:
            if (message.name, field.name) in _RECORDS:
                only.add((message.name, field.name))
            elif field.message_type is not None and _leads_to_records(field.message_type):
                only.add((message.name, field.name))
                if field.message_type.full_name not in seen:
                    seen.add(field.message_type.full_name)
                    pending.append(field.message_type)
    return handler_of(request, _RECORDS, frozenset(only))


@cache
def _leads_to_records(message: Descriptor) -> bool:
    return any(
        (message.name, field.name) in _RECORDS
        or (
            field.message_type is not None
            and field.message_type.name not in ("AnyValue", "KeyValue")
            and _leads_to_records(field.message_type)
        )
        for field in message.fields
    )
