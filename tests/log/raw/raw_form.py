"""A form for tests: an append stands for consecutive ids."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from frazil.log import forms
from frazil.log.forms import Bytes, RawAppends
from tests.log.support import SCHEMA

NAME = "ids.1"
APPEND = struct.Struct("<qq")
"""The first id, and the number of ids."""
BYTES = 1000
"""The estimated size of a row."""


class Ids:
    def __init__(self) -> None:
        self.calls: list[int] = []
        """The number of appends of each call of `rows`."""
        self.times: list[int] = []

    def rows(
        self, appends: Sequence[Bytes], times_ms: npt.NDArray[np.int64], *, dictionaries: bool = False
    ) -> pa.RecordBatch:
        self.calls.append(len(appends))
        self.times += times_ms.tolist()
        ids = [each for first, count in map(APPEND.unpack, appends) for each in range(first, first + count)]
        return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], schema=SCHEMA)


def raw(*appends: tuple[int, int]) -> RawAppends:
    """Make raw appends of the first id and the number of ids of each."""
    rows = sum(count for _, count in appends)
    return RawAppends(NAME, [APPEND.pack(*each) for each in appends], SCHEMA, rows, rows * BYTES)


@contextmanager
def registered() -> Iterator[Ids]:
    """Register the form, as if a package had declared it."""
    form = Ids()

    class Known(EntryPoint):
        def load(self) -> Ids:
            return form

    def entry_points(*, group: str, name: str) -> Sequence[EntryPoint]:
        return [Known(name, "tests", group)] if name == NAME else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "entry_points", entry_points)
        forms.form_of.cache_clear()
        yield form
    forms.form_of.cache_clear()
