"""A form for tests: an append stands for ids that follow each other."""

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
"""The first id, and how many there are."""
BYTES = 1000
"""What a row is said to take."""


class Ids:
    def __init__(self) -> None:
        self.calls: list[int] = []
        """Of how many appends rows were made at a time."""
        self.times: list[int] = []

    def rows(
        self, appends: Sequence[Bytes], times_ms: npt.NDArray[np.int64], *, dictionaries: bool = False
    ) -> pa.RecordBatch:
        self.calls.append(len(appends))
        self.times += times_ms.tolist()
        ids = [each for first, count in map(APPEND.unpack, appends) for each in range(first, first + count)]
        return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], schema=SCHEMA)


def raw(*appends: tuple[int, int]) -> RawAppends:
    """The first id of each append, and how many it has."""
    rows = sum(count for _, count in appends)
    return RawAppends(NAME, [APPEND.pack(*each) for each in appends], SCHEMA, rows, rows * BYTES)


@contextmanager
def registered() -> Iterator[Ids]:
    """As if a package had told of it."""
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
