"""Requests as the log has them until they are made rows: whose each is, and its bytes."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as types
from google.protobuf.message import Message

from frazil.log.forms import Raw
from frazil.telemetry import logs, metrics, outlines, spans
from frazil.telemetry.attributes import MAP
from frazil.telemetry.fields import TIME
from frazil.telemetry.levels import TENANT
from frazil.telemetry.messages import column_of, decode
from frazil.telemetry.outlines import Bounds, Levels, Outline
from frazil.telemetry.rows import Arrival, Rows
from frazil.telemetry.runs import Ints

logger = logging.getLogger(__name__)

_LINES = pa.schema([pa.field(TENANT, pa.string()), pa.field("rows", pa.int32()), pa.field("body", pa.binary())])
_ARRIVED = "ingested_timestamp"
ERROR, REQUEST = "frazil.error", "frazil.request"
"""Attributes of rows that stand for a request that could not be made rows: why, and its bytes in base64."""


@dataclass(frozen=True)
class RequestForm:
    """Small and plain requests of one signal (`outlines`)."""

    name: str
    message: type[Message]
    rows_schema: pa.Schema
    to_rows: Callable[[pa.RecordBatch, Arrival], Rows]
    levels: Levels
    schema = _LINES

    def outline(self, body: bytes, bounds: Bounds) -> Outline | None:
        """None for what is not stored in this form."""
        return outlines.outline(self.message, self.levels, body, bounds)

    def raw(self, tenants: Sequence[str], bodies: Sequence[bytes], found: Sequence[Outline]) -> Raw:
        """Requests to be stored."""
        columns = [
            pa.array(tenants, pa.string()),
            pa.array([each.rows for each in found], pa.int32()),
            column_of(bodies),
        ]
        lines = pa.RecordBatch.from_arrays(columns, schema=_LINES)
        rows, nbytes = map(sum, zip(*found, strict=True))
        return Raw(self.name, lines, self.rows_schema, rows, nbytes)

    def rows(self, lines: pa.RecordBatch, times_ms: Ints) -> pa.RecordBatch:
        """They were acknowledged: each has its rows, whatever is wrong with it or with another."""
        try:
            return self._made(lines, times_ms)
        except Exception as error:
            if len(lines) == 1:
                logger.exception("a request that was stored cannot be made rows; it is kept as it came")
                return self._kept(lines, int(times_ms[0]), error)
            logger.info("requests are made rows one by one: %s", error)
        each = [self.rows(lines.slice(place, 1), times_ms[place : place + 1]) for place in range(len(lines))]
        return pa.concat_batches(each)

    def _made(self, lines: pa.RecordBatch, times_ms: Ints) -> pa.RecordBatch:
        tenants, expected, bodies = lines.columns
        found = self.to_rows(decode(self.message, bodies), Arrival(tenants.to_pylist(), 0))
        counts = np.bincount(found.requests, minlength=len(lines))
        if not np.array_equal(counts, expected.to_numpy()):
            raise ValueError("the requests have other numbers of records than they had when they were stored")
        times = pa.array(np.repeat(times_ms * 10**6, counts)).view(TIME)
        place = self.rows_schema.get_field_index(_ARRIVED)
        return found.batch.set_column(place, self.rows_schema.field(place), times)

    def _kept(self, line: pa.RecordBatch, time_ms: int, error: Exception) -> pa.RecordBatch:
        """As many rows as it has, the first of them with all that came."""
        tenants, rows, bodies = (column.to_pylist()[0] for column in line.columns)
        kept = [(ERROR, f"{type(error).__name__}: {error}"), (REQUEST, base64.b64encode(bodies).decode())]

        def column(field: pa.Field) -> pa.Array:
            if field.name == "attributes":
                return pa.array([kept, *[[]] * (rows - 1)], MAP)
            if field.nullable:
                return pa.nulls(rows, field.type)
            value = pa.scalar(time_ms * 10**6, TIME) if types.is_timestamp(field.type) else tenants
            return pa.repeat(value, rows)

        return pa.RecordBatch.from_arrays(list(map(column, self.rows_schema)), schema=self.rows_schema)


LOGS = RequestForm("otlp.logs.1", logs.REQUEST, logs.SCHEMA, logs.to_rows, outlines.of_logs)
SPANS = RequestForm("otlp.spans.1", spans.REQUEST, spans.SCHEMA, spans.to_rows, outlines.of_spans)
METRICS = RequestForm("otlp.metrics.1", metrics.REQUEST, metrics.SCHEMA, metrics.to_rows, outlines.of_metrics)
