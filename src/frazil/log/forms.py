"""Appends that are stored as they came, and made rows later.

To make rows of what a door gets may take longer than to write it down. Such appends are stored as bytes, in the
*form* in which they came; they have their offsets from that moment on. Rows are made of many of them together, when
somebody reads them, from the WAL or from a segment (`raw_segments`).

The name of a form stands in the WAL, where any later version finds it. What it means must not change: a form that is
written differently has another name. Packages tell of their forms as entry points.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import LogCorrupted, LogVersionUnsupported
from frazil.log.schema.schema import conform, with_dictionaries

_GROUP = "frazil.log.forms"
_NUMBER = struct.Struct("<I")

Bytes = bytes | memoryview


class Form(Protocol):
    def rows(
        self, appends: Sequence[Bytes], times_ms: npt.NDArray[np.int64], *, dictionaries: bool = False
    ) -> pa.RecordBatch:
        """The rows of all appends, in their order; each was stored at one of the times. With `dictionaries`, texts
        may be places in dictionaries (`repeated`)."""


class RawAppends(NamedTuple):
    """Appends as they came."""

    form: str
    """Its name, which is short (`wal.entries`)."""
    appends: list[bytes]
    schema: pa.Schema
    """Of their rows."""
    rows: int
    nbytes: int
    """About what the rows take."""


class RawEntry(NamedTuple):
    """Appends that were stored at the same time."""

    appends: Sequence[Bytes]
    rows: int
    time_ms: int


def pack_appends(appends: Sequence[bytes]) -> bytes:
    """As one payload of the WAL."""
    parts = [_NUMBER.pack(len(appends))]
    for append in appends:
        parts += (_NUMBER.pack(len(append)), append)
    return b"".join(parts)


def unpack_appends(payload: pa.Buffer) -> list[memoryview]:
    """Without a copy."""
    view = memoryview(payload)
    (count,) = _NUMBER.unpack_from(view)
    appends, at = [], _NUMBER.size
    for _ in range(count):
        start = at + _NUMBER.size
        at = start + _NUMBER.unpack_from(view, at)[0]
        appends.append(view[start:at])
    return appends


@cache
def form_of(name: str) -> Form:
    for found in entry_points(group=_GROUP, name=name):
        form: Form = found.load()
        return form
    raise LogVersionUnsupported(
        f"Records were stored in the form {name!r}, which is not known here. Run the version of Frazil that wrote "
        f"them, or let it seal the log first."
    )


def make_rows(
    name: str, stored: Sequence[RawEntry], schema: pa.Schema, *, dictionaries: bool = False
) -> pa.RecordBatch:
    """The rows of appends of one form, all with this schema but for `dictionaries`, if these are wanted."""
    appends = [append for each in stored for append in each.appends]
    times = np.repeat([each.time_ms for each in stored], [len(each.appends) for each in stored])
    rows = form_of(name).rows(appends, times, dictionaries=dictionaries)
    expected = sum(each.rows for each in stored)
    if rows.num_rows != expected:
        raise LogCorrupted(f"Records in the form {name!r} became {rows.num_rows} rows, but {expected} were stored.")
    return conform(rows, with_dictionaries(schema, rows.schema) if dictionaries else schema)
