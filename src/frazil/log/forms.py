"""Appends that are stored as they came, and made rows later.

To make rows of what a door gets may take longer than to write it down. Such appends are stored in the *form* in which
they came, one line of a batch for each; they have their offsets from that moment on. Rows are made of many of them
together, when somebody reads them, and at the latest when they are sealed: segments have rows only.

The name of a form stands in the WAL, where any later version finds it. What it means must not change: a form that is
written differently has another name. Packages tell of their forms as entry points.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import LogCorrupted, LogVersionUnsupported
from frazil.log.schema import conform

_GROUP = "frazil.log.forms"


class Form(Protocol):
    @property
    def schema(self) -> pa.Schema:
        """Of the lines."""

    def rows(self, lines: pa.RecordBatch, times_ms: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The rows of all lines, in their order; each line was stored at one of the times."""


class Raw(NamedTuple):
    """Appends as they came."""

    form: str
    """Its name, which is short (`wal.entries`)."""
    lines: pa.RecordBatch
    """One for each append."""
    schema: pa.Schema
    """Of their rows."""
    rows: int
    nbytes: int
    """About what the rows take."""


class Lines(NamedTuple):
    """Those that were stored together."""

    batch: pa.RecordBatch
    rows: int
    time_ms: int


@cache
def form_of(name: str) -> Form:
    for found in entry_points(group=_GROUP, name=name):
        form: Form = found.load()
        return form
    raise LogVersionUnsupported(
        f"Records were stored in the form {name!r}, which is not known here. Run the version of Frazil that wrote "
        f"them, or let it seal the log first."
    )


def make_rows(name: str, stored: Sequence[Lines], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of lines of one form, all with this schema."""
    lines = pa.concat_batches([each.batch for each in stored])
    times = np.repeat([each.time_ms for each in stored], [each.batch.num_rows for each in stored])
    rows = form_of(name).rows(lines, times)
    expected = sum(each.rows for each in stored)
    if rows.num_rows != expected:
        raise LogCorrupted(f"Records in the form {name!r} became {rows.num_rows} rows, but {expected} were stored.")
    return conform(rows, schema)
