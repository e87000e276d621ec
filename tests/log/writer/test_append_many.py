"""Batches whose rows are several appends: each has its own outcome, as if it had come alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FrazilError
from frazil.log.positions import Origin
from frazil.log.writer.group import Ack, BatchAppend
from frazil.log.writer.writer import PartitionWriter
from frazil.store.local import LocalStore
from tests.log.support import crash, ids, reader, rows, writer


def _request(name: int) -> Origin:
    return Origin(request=name.to_bytes(16))


def _append(w: PartitionWriter, batch: pa.RecordBatch, parts: list[BatchAppend]) -> list[Ack]:
    outcomes = asyncio.run(w.append_many(batch, parts))
    assert not [each for each in outcomes if isinstance(each, FrazilError)]
    return [each for each in outcomes if isinstance(each, Ack)]


def test_each_part_is_an_append(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    first = _append(w, rows(0, 6), [BatchAppend(1, _request(1)), BatchAppend(3, _request(2)), BatchAppend(2)])
    assert [(ack.offset, ack.rows, ack.duplicate) for ack in first] == [(0, 1, False), (1, 3, False), (4, 2, False)]
    # Sent again in other company.
    second = _append(w, rows(10, 6), [BatchAppend(2), BatchAppend(3, _request(2)), BatchAppend(1, _request(3))])
    assert [(ack.offset, ack.rows, ack.duplicate) for ack in second] == [(6, 2, False), (1, 3, True), (8, 1, False)]
    assert ids(reader(local_store, w).read(0)) == [0, 1, 2, 3, 4, 5, 10, 11, 15]
    assert (w.stats.appends, w.stats.duplicates) == (6, 1)
    crash(w)
    again = writer(local_store, tmp_path)
    third = _append(
        again, rows(20, 4), [BatchAppend(1, _request(1)), BatchAppend(1, _request(3)), BatchAppend(2, _request(4))]
    )
    assert [(ack.offset, ack.duplicate) for ack in third] == [(0, True), (8, True), (9, False)]
    again.close()


@given(st.lists(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=6), max_size=6))
def test_parts_are_stored_as_appends_one_by_one_would_be(batches: list[list[tuple[int, int]]]) -> None:
    """An append is given by its number of rows and its request; 0 means no request."""
    with TemporaryDirectory() as folder:
        store = LocalStore(Path(folder, "store"))
        w = writer(store, Path(folder))
        stored: list[int] = []
        places: dict[int, tuple[int, int]] = {}
        first = 0
        for batch in batches:
            parts = [BatchAppend(size, _request(name) if name else None) for size, name in batch]
            total = sum(size for size, _ in batch)
            acks = _append(w, rows(first, total), parts)
            for (size, name), ack in zip(batch, acks, strict=True):
                duplicate = name in places
                place = places[name] if duplicate else (len(stored), size)
                assert (ack.offset, ack.rows, ack.duplicate) == (*place, duplicate)
                if not duplicate:
                    stored += range(first, first + size)
                    places |= {name: place} if name else {}
                first += size
        assert w.next_offset == len(stored)
        assert ids(reader(store, w).read(0)) == stored
        w.close()
