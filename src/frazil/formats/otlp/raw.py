"""Stores plain requests as their bytes, and turns them into rows when they are read."""

from __future__ import annotations

import base64
import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as types
from google.protobuf.message import Message

from frazil.formats.otlp import logs, metrics, plain_requests, spans
from frazil.formats.otlp.plain_requests import RecordLimits, RecordsByScope, RowEstimate
from frazil.formats.telemetry.attributes import MAP
from frazil.formats.telemetry.fields import TIME
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.rows import Arrival, ToRows
from frazil.formats.telemetry.runs import Ints
from frazil.log.forms import Bytes, RawAppends
from frazil.native import faults_as_errors

logger = logging.getLogger(__name__)

_HEAD = struct.Struct("<HI")
"""The header of a stored request: the length of the tenant's name and the number of rows. The name and the body
follow."""
_ARRIVED = "ingested_timestamp"
ERROR, REQUEST = "frazil.error", "frazil.request"
"""Attributes of the rows of a stored request that could not be converted: the reason, and its bytes in base64."""


class _StoredRequest(NamedTuple):
    tenant: str
    rows: int
    body: Bytes


def _unpacked(append: Bytes) -> _StoredRequest:
    size, rows = _HEAD.unpack_from(append)
    start = _HEAD.size + size
    return _StoredRequest(str(append[_HEAD.size : start], "utf-8"), rows, append[start:])


@dataclass(frozen=True)
class RequestForm:
    """The storage form of plain requests (`plain_requests`) of one signal."""

    name: str
    message: type[Message]
    rows_schema: pa.Schema
    to_rows: ToRows
    records: RecordsByScope

    def estimate(self, message: Message, body: bytes, limits: RecordLimits) -> RowEstimate | None:
        """Returns the number and size of the rows of a request; None if it is not stored in this form."""
        return plain_requests.estimate_rows(message, body, self.records, limits)

    def raw(self, tenants: Sequence[str], bodies: Sequence[bytes], found: Sequence[RowEstimate]) -> RawAppends:
        """Packs requests to be stored."""
        appends = []
        for tenant, body, (rows, _) in zip(tenants, bodies, found, strict=True):
            name = tenant.encode()
            appends.append(b"".join((_HEAD.pack(len(name), rows), name, body)))
        rows, nbytes = map(sum, zip(*found, strict=True))
        return RawAppends(self.name, appends, self.rows_schema, rows, nbytes)

    def rows(self, appends: Sequence[Bytes], times_ms: Ints, *, dictionaries: bool = False) -> pa.RecordBatch:
        """Turns stored requests into rows. They were acknowledged, so each gets its rows, whatever is wrong with it
        or with another."""
        return self._rows(list(map(_unpacked, appends)), times_ms, dictionaries)

    def _rows(self, requests: list[_StoredRequest], times_ms: Ints, dictionaries: bool) -> pa.RecordBatch:
        try:
            with faults_as_errors():
                return self._to_rows(requests, times_ms, dictionaries)
        except MemoryError:
            # This says nothing about the requests: there may be enough memory the next time.
            raise
        except Exception as error:
            if len(requests) == 1:
                logger.exception("a request that was stored cannot be made rows; it is kept as it came")
                return self._rows_of_failed(requests[0], int(times_ms[0]), error)
            logger.warning("requests are made rows one by one, which takes longer: %s", error)
        each = [self._rows([request], times_ms[place : place + 1], False) for place, request in enumerate(requests)]
        return pa.concat_batches(each)

    def _to_rows(self, requests: list[_StoredRequest], times_ms: Ints, dictionaries: bool) -> pa.RecordBatch:
        tenants, expected, bodies = zip(*requests, strict=True)
        found = self.to_rows(decode(self.message, bodies), Arrival(tenants, 0), dictionaries=dictionaries)
        counts = np.bincount(found.requests, minlength=len(requests))
        if counts.tolist() != list(expected):
            raise ValueError("the requests have other numbers of records than they had when they were stored")
        times = pa.array(np.repeat(times_ms * 10**6, counts)).view(TIME)
        place = self.rows_schema.get_field_index(_ARRIVED)
        return found.batch.set_column(place, self.rows_schema.field(place), times)

    def _rows_of_failed(self, request: _StoredRequest, time_ms: int, error: Exception) -> pa.RecordBatch:
        """Returns the expected number of rows for a request that cannot be converted. The first row has the error and
        the whole request."""
        tenant, rows, body = request
        kept = [(ERROR, f"{type(error).__name__}: {error}"), (REQUEST, base64.b64encode(body).decode())]

        def column(field: pa.Field) -> pa.Array:
            if field.name == "attributes":
                return pa.array([kept, *[[]] * (rows - 1)], MAP)
            if field.nullable:
                return pa.nulls(rows, field.type)
            value = pa.scalar(time_ms * 10**6, TIME) if types.is_timestamp(field.type) else tenant
            return pa.repeat(value, rows)

        return pa.RecordBatch.from_arrays(list(map(column, self.rows_schema)), schema=self.rows_schema)


LOGS = RequestForm("otlp.logs.1", logs.REQUEST, logs.SCHEMA, logs.to_rows, plain_requests.log_records)
SPANS = RequestForm("otlp.spans.1", spans.REQUEST, spans.SCHEMA, spans.to_rows, plain_requests.spans)
METRICS = RequestForm("otlp.metrics.1", metrics.REQUEST, metrics.SCHEMA, metrics.to_rows, plain_requests.data_points)
