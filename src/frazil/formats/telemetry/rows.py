"""What becomes of requests: rows, and what is to be told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import RequestError
from frazil.formats.telemetry.any_values import ABSENT, TEXT, Codes
from frazil.formats.telemetry.fields import TIME
from frazil.formats.telemetry.runs import Ints


class Arrival(NamedTuple):
    """What is known of requests beside what is in them."""

    tenants: Sequence[str]
    """Of each request."""
    time_ns: int

    def tenants_of(self, requests: Ints) -> pa.Array:
        """The tenant of each row; `requests` says which request it is of."""
        if len(set(self.tenants)) == 1:
            return pa.repeat(self.tenants[0], len(requests))
        return pa.array(self.tenants, pa.string()).take(pa.array(requests))

    def times(self, rows: int) -> pa.Array:
        return pa.repeat(pa.scalar(self.time_ns, TIME), rows)


class Rejected(NamedTuple):
    """Records of one request that can never be stored."""

    records: int
    reason: str


_NOBODY: Mapping[int, Rejected] = {}


class TelemetryRows(NamedTuple):
    batch: pa.RecordBatch
    requests: Ints
    """Which request each row is of; they ascend."""
    invalid_ids: int = 0
    """Ids that are none, which are null in the rows."""
    timeless: frozenset[int] = frozenset()
    """Requests with records that have no time of their own: the same bytes again may be other records."""
    rejected: Mapping[int, Rejected] = _NOBODY
    """By request."""


class ToRows(Protocol):
    """Makes rows of decoded requests."""

    def __call__(self, requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
        """With `dictionaries`, texts that come again and again may be places in dictionaries (`log.repeated`)."""


def batch_of(columns: Mapping[str, pa.Array], schema: pa.Schema, *, dictionaries: bool = False) -> pa.RecordBatch:
    """Rows with the columns of the schema; `dictionaries` says that some may be such."""
    chosen = [columns[name] for name in schema.names]
    if dictionaries:
        schema = pa.schema([field.with_type(column.type) for field, column in zip(schema, chosen, strict=True)])
    return pa.RecordBatch.from_arrays(chosen, schema=schema)


MOST_BYTES = 1 << 30
"""Of the rows of requests that are decoded together. Each row has what it shares with others, so a small request
could stand for more than there is memory."""
ROW_BYTES = 200
"""Of a row with nothing in it."""


def check_total(nbytes: int) -> None:
    """Raises `RequestError` for rows that would be larger than may be."""
    if nbytes > MOST_BYTES:
        raise RequestError(
            f"The records would be {nbytes:,} bytes, each with all that they share, and {MOST_BYTES:,} may be. Send "
            f"smaller batches, or shorter attributes and labels."
        )


def requests_with(chosen: npt.NDArray[np.bool_], requests: Ints) -> frozenset[int]:
    """The requests of rows for which it is true."""
    return frozenset(requests[chosen].tolist()) if chosen.any() else frozenset()


def types_of_values(codes: Codes) -> pa.Array:
    """The letter of each value; null for text, and where there is no value at all."""
    told = (codes != ord(TEXT)) & (codes != ord(ABSENT))
    if not told.any():
        return pa.nulls(len(codes), pa.string())
    borders = np.arange(len(codes) + 1, dtype=np.int32)
    letters = pa.Array.from_buffers(pa.string(), len(codes), [None, pa.py_buffer(borders), pa.py_buffer(codes)])
    return pa.compute.if_else(pa.array(told), letters, pa.scalar(None, pa.string()))
