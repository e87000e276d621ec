"""Segments can be streamed in pieces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import LogCorrupted, SegmentMissing
from frazil.log import layout
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import stream_records
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from tests.log.support import TOPIC, ids, reader, rows, writer


def test_any_range_is_read_whole_in_small_pieces(any_store: ObjectStore, tmp_path: Path) -> None:
    w = writer(any_store, tmp_path)
    for start in (0, 100, 200):
        w.append(rows(start, 100))
        w.seal()
    w.append(rows(300, 5))
    r = reader(any_store, w)
    for start, end in ((0, 305), (0, 1), (50, 51), (99, 201), (100, 200), (150, 302), (304, 305)):
        found = list(r.read(start, end, piece_bytes=200))
        assert ids(found) == list(range(start, end))
        assert max(len(each.batch) for each in found) <= 20, "a piece has few rows"
    only = next(r.read(120, 130, columns=["text"], piece_bytes=200))
    assert only.batch.schema.names == ["text"]
    assert only.batch.column(0)[0].as_py() == "row 120"
    w.close()


def test_where_some_segments_end(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    for start in (0, 10, 20, 30):
        w.append(rows(start, 10))
        w.seal()
    r = reader(local_store, w)
    r.bounds()
    assert [r.reach(offset, 1) for offset in (0, 9, 10, 39)] == [10, 10, 20, 40]
    assert [r.reach(offset, 2) for offset in (0, 19, 25, 39)] == [20, 30, 40, 40]
    w.close()


def test_pieces_hold_only_their_own_memory(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    text = pa.array([f"{number:06d}" * 200 for number in range(20_000)])
    w.append(pa.record_batch([pa.array(range(20_000), pa.int64()), text], schema=rows(0, 1).schema))
    w.seal()
    before = pa.total_allocated_bytes()
    most = 0
    for run in reader(local_store).read(0, 20_000, piece_bytes=100_000):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(run.batch) < 20_000
    assert most < text.nbytes / 4
    w.close()


def test_a_segment_that_is_gone_or_damaged_is_told(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 1000))
    w.seal()
    w.close()
    index = SegmentIndex(local_store, TOPIC, 0)
    index.refresh()
    segment = index.footer(0)
    path = local_store._root / layout.segment_key(TOPIC, 0, 0)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LogCorrupted, match="cannot be read"):
        list(stream_records(local_store, segment, 0, 1000))
    path.unlink()
    with pytest.raises(SegmentMissing):
        list(stream_records(local_store, segment, 0, 1000))
