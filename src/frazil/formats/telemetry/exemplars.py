"""Turns exemplars of data points, which are measurements with their traces, into lists of structs."""

from __future__ import annotations

import pyarrow as pa
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar

from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.message_lists import lists_of
from frazil.formats.telemetry.row_messages import Row, pairs
from frazil.formats.telemetry.scopes import Columns, attribute_columns

EXEMPLARS = pa.list_(
    pa.struct(
        [
            # Tables have signed numbers: a time after 2262 is the negative number of the same bits.
            pa.field("time_unix_nano", pa.int64()),
            pa.field("value_double", pa.float64()),
            pa.field("value_int", pa.int64()),
            # Ids are stored as they came, and may have any length.
            pa.field("span_id", pa.binary()),
            pa.field("trace_id", pa.binary()),
            *attributes.fields("attributes"),
        ]
    )
)

_BITS = 2**64 - 1


def of_lists(serialized: pa.ListArray) -> pa.ListArray:
    return lists_of(serialized, Exemplar, EXEMPLARS, _columns)


def _columns(exemplars: pa.RecordBatch) -> Columns:
    return {
        "time_unix_nano": exemplars.column("time_unix_nano").view(pa.int64()),
        "value_double": exemplars.column("as_double"),
        "value_int": exemplars.column("as_int"),
        "span_id": exemplars.column("span_id"),
        "trace_id": exemplars.column("trace_id"),
        **attribute_columns("attributes", attributes.of_lists(exemplars.column("filtered_attributes"))),
    }


def to_message(exemplar: Row) -> Exemplar:
    return Exemplar(
        time_unix_nano=exemplar["time_unix_nano"] & _BITS,
        as_double=exemplar["value_double"],
        as_int=exemplar["value_int"],
        span_id=exemplar["span_id"],
        trace_id=exemplar["trace_id"],
        filtered_attributes=pairs(exemplar, "attributes"),
    )
