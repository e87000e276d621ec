"""Defines the result of converting requests: rows, and what clients and metrics are told about them."""

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
    """Holds what is known about requests beside their content."""

    tenants: Sequence[str]
    """The tenant of each request."""
    time_ns: int

    def tenants_of(self, requests: Ints) -> pa.Array:
        """Returns the tenant of each row; `requests` has the number of its request."""
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
    """The number of the request of each row; ascending."""
    invalid_ids: int = 0
    """The number of invalid ids, which are null in the rows."""
    timeless: frozenset[int] = frozenset()
    """The requests with records that have no time of their own. If the same bytes come again, they may be other
    records."""
    rejected: Mapping[int, Rejected] = _NOBODY
    """The rejected records, by request."""


class ToRows(Protocol):
    """Converts decoded requests to rows."""

    def __call__(self, requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
        """With `dictionaries`, texts that repeat may be dictionary-encoded (`log.schema.repeated_texts`)."""


def batch_of(columns: Mapping[str, pa.Array], schema: pa.Schema, *, dictionaries: bool = False) -> pa.RecordBatch:
    """Returns a batch with the columns of the schema; with `dictionaries`, some may be dictionary-encoded."""
    chosen = [columns[name] for name in schema.names]
    if dictionaries:
        schema = pa.schema([field.with_type(column.type) for field, column in zip(schema, chosen, strict=True)])
    return pa.RecordBatch.from_arrays(chosen, schema=schema)


MOST_BYTES = 1 << 30
"""The most bytes of the rows of requests that are decoded together. Each row repeats what it shares with others, so a
small request could need more memory than there is."""
ROW_BYTES = 200
"""The approximate bytes of an empty row."""


def check_total(nbytes: int) -> None:
    """Raises `RequestError` if the rows would be larger than `MOST_BYTES`."""
    if nbytes > MOST_BYTES:
        raise RequestError(
            f"The records would be {nbytes:,} bytes, each with all that they share, and {MOST_BYTES:,} may be. Send "
            f"smaller batches, or shorter attributes and labels."
        )


def requests_with(chosen: npt.NDArray[np.bool_], requests: Ints) -> frozenset[int]:
    """Returns the requests of the chosen rows."""
    return frozenset(requests[chosen].tolist()) if chosen.any() else frozenset()


def types_of_values(codes: Codes) -> pa.Array:
    """Returns the letter of each value; null for text, and where there is no value at all."""
    typed = (codes != ord(TEXT)) & (codes != ord(ABSENT))
    if not typed.any():
        return pa.nulls(len(codes), pa.string())
    borders = np.arange(len(codes) + 1, dtype=np.int32)
    letters = pa.Array.from_buffers(pa.string(), len(codes), [None, pa.py_buffer(borders), pa.py_buffer(codes)])
    return pa.compute.if_else(pa.array(typed), letters, pa.scalar(None, pa.string()))
