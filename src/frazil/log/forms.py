"""Raw appends: requests that are stored as they came and decoded into rows later.

Decoding what a door receives may take longer than writing it down. Such appends are stored as bytes, in the *form* in
which they came, and have their offsets from that moment on. Many of them are decoded together when somebody reads
them, from the WAL or from a segment (`log.raw.segments`).

The WAL names the form, and any later version must understand it. So the meaning of a name never changes: a form that
is written differently gets another name. Packages declare their forms as entry points.
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
        """Decode all appends into rows, in their order. Each append was stored at the time of the same index.

        With `dictionaries`, columns of texts may be dictionary-encoded (`repeated_texts`).
        """


class RawAppends(NamedTuple):
    """Appends as a client sent them."""

    form: str
    """The name of the form. It has at most 16 bytes (`wal.entries`)."""
    appends: list[bytes]
    schema: pa.Schema
    """The schema of the decoded rows."""
    rows: int
    nbytes: int
    """The estimated size of the decoded rows."""


class RawEntry(NamedTuple):
    """The raw appends of one entry: they were stored at the same time."""

    appends: Sequence[Bytes]
    rows: int
    time_ms: int


def pack_appends(appends: Sequence[bytes]) -> bytes:
    """Join appends into one payload of a WAL frame."""
    parts = [_NUMBER.pack(len(appends))]
    for append in appends:
        parts += (_NUMBER.pack(len(append)), append)
    return b"".join(parts)


def unpack_appends(payload: pa.Buffer) -> list[memoryview]:
    """Split a payload into its appends, without a copy."""
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
    """Decode appends of one form into rows of this schema; with `dictionaries`, texts may be dictionary-encoded."""
    appends = [append for each in stored for append in each.appends]
    times = np.repeat([each.time_ms for each in stored], [len(each.appends) for each in stored])
    rows = form_of(name).rows(appends, times, dictionaries=dictionaries)
    expected = sum(each.rows for each in stored)
    if rows.num_rows != expected:
        raise LogCorrupted(f"Records in the form {name!r} became {rows.num_rows} rows, but {expected} were stored.")
    return conform(rows, with_dictionaries(schema, rows.schema) if dictionaries else schema)
