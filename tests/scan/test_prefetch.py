"""Tests that reading ahead gives all rows, raises errors where the rows are wanted, and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from frazil.scan.prefetch import read_ahead

DEADLINE = 30.0


class Numbers:
    """Is a task of so many batches that counts how many were read, and may fail or wait at the end."""

    def __init__(self, count: int, then: Exception | threading.Event | None = None) -> None:
        self._count = count
        self._then = then
        self.read_so_far = 0
        self.closed = threading.Event()

    def read(self) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(self._count):
                self.read_so_far += 1
                yield pa.record_batch({"n": [number]})
            if isinstance(self._then, Exception):
                raise self._then
            if self._then is not None:
                self._then.wait(DEADLINE)
        finally:
            self.closed.set()


def test_all_batches_of_all_parts_come() -> None:
    parts = [Numbers(count) for count in (0, 5, 1, 20)]
    found = sorted(batch.column("n")[0].as_py() for batch in read_ahead([part.read for part in parts]))
    assert found == sorted([*range(5), 0, *range(20)])


def test_an_error_is_raised_to_the_reader_and_ends_the_others() -> None:
    endless = Numbers(1_000_000_000)
    with pytest.raises(ValueError, match="broken"):
        list(read_ahead([Numbers(3, ValueError("broken")).read, endless.read]))
    assert endless.closed.wait(DEADLINE)


def test_few_batches_are_read_ahead_and_a_reader_may_leave() -> None:
    endless = [Numbers(1_000_000_000), Numbers(1_000_000_000)]
    reading = read_ahead([each.read for each in endless])
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    for each in endless:
        assert each.closed.wait(DEADLINE)
        assert each.read_so_far < 20


def test_a_reader_that_waits_can_be_stopped() -> None:
    stopped, never = threading.Event(), threading.Event()
    found = []
    reading = read_ahead([Numbers(1, never).read], stopped)
    found.append(next(reading))
    threading.Timer(0.05, stopped.set).start()
    assert list(reading) == []
    never.set()
