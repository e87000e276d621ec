"""The tail of one partition becomes segments."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.log import layout
from frazil.log.positions import Feeders, Origin, Sequence, Source
from frazil.log.segments.segment import read_footer
from frazil.log.wal.recovery import wal_files
from frazil.store.local import LocalStore
from tests.log.support import SCHEMA, TOPIC, Machine, crash, ids, reader, rows, wal_of, writer


class TestSealing:
    def test_is_due_by_count_size_or_time(self, local_store: LocalStore, tmp_path: Path) -> None:
        machine = Machine()
        w = writer(local_store, tmp_path, machine, seal_rows=10, seal_seconds=60)
        assert w.seal_in() is None
        w.append(rows(0, 9))
        assert not w.seal_due()
        w.append(rows(9, 1))
        assert w.seal_due()
        w.seal()
        w.append(rows(10, 1))
        assert not w.seal_due()
        machine.clock.advance(60)
        assert w.seal_due()
        w.close()

    def test_deletes_the_wal_files_it_replaces(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, max_file_bytes=1)
        for i in range(5):
            w.append(rows(i, 1))
        assert len(wal_files(wal_of(tmp_path))) == 5
        w.seal()
        w.close()
        assert [p.stem for p in wal_files(wal_of(tmp_path))] == [f"{5:020d}"]

    def test_cuts_a_long_tail_into_several_segments(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, seal_rows=10)
        for i in range(7):
            w.append(rows(i * 4, 4))
        w.seal_all()
        firsts = [layout.parse_segment(i.key) for i in local_store.list(layout.partition_prefix(TOPIC, 0))]
        assert [f for f in firsts if f is not None] == [0, 8, 16, 24]
        assert ids(reader(local_store).read(0)) == list(range(28))
        w.close()

    def test_a_segment_carries_writer_epoch_and_positions(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        w.append(rows(0, 3), Origin(source=Source("kafka:a:0", "id", 3)))
        w.seal()
        segment = read_footer(local_store, layout.segment_key(TOPIC, 0, 0))
        assert (segment.first, segment.end) == (0, 3)
        assert segment.epochs == w.tail.epochs
        assert Feeders.from_json(segment.positions).sources == [Source("kafka:a:0", "id", 3)]
        w.close()

    @pytest.mark.parametrize("text", ['"footer_crc":"', '{"footer_crc":"00000000"}', 'a"footer_crc":"12345678'])
    def test_records_that_look_like_what_a_segment_says_of_itself(
        self, text: str, local_store: LocalStore, tmp_path: Path
    ) -> None:
        """The footer has the least and the largest text of a column."""
        w = writer(local_store, tmp_path)
        batch = pa.record_batch([pa.array([1, 2, 3]), pa.array([text] * 3)], schema=SCHEMA)
        w.append(batch, Origin(source=Source(text, text, 3)))
        w.seal()
        assert [run.batch.to_pylist() for run in reader(local_store).read(0)] == [batch.to_pylist()]
        segment = read_footer(local_store, layout.segment_key(TOPIC, 0, 0))
        assert Feeders.from_json(segment.positions).sources == [Source(text, text, 3)]
        w.close()

    def test_a_crash_between_put_and_wal_deletion_repeats_nothing(
        self, local_store: LocalStore, tmp_path: Path
    ) -> None:
        w = writer(local_store, tmp_path)
        w.append(rows(0, 10))
        draft = w._prepare()
        assert draft is not None
        local_store.put_new(draft.segment.key, draft.data)
        crash(w)
        again = writer(local_store, tmp_path)
        assert again.sealed_end == 10
        again.append(rows(10, 1))
        again.seal()
        assert ids(reader(local_store).read(0)) == list(range(11))
        again.close()

    def test_a_reseal_that_finds_its_own_shorter_segment_goes_on_from_its_end(
        self, local_store: LocalStore, tmp_path: Path
    ) -> None:
        """The put arrives after the restart has looked, and after more was appended."""
        w = writer(local_store, tmp_path)
        w.append(rows(0, 10))
        late = w._prepare()
        assert late is not None
        crash(w)
        again = writer(local_store, tmp_path)
        again.append(rows(10, 10), Origin(sequence=Sequence("p", 1)))
        local_store.put_new(late.segment.key, late.data)
        first = again.seal()
        assert first is not None
        assert (first.first, first.end) == (0, 10)
        second = again.seal()
        assert second is not None
        assert (second.first, second.end) == (10, 20)
        assert ids(reader(local_store).read(0)) == list(range(20))
        assert again.append(rows(10, 10), Origin(sequence=Sequence("p", 1))).offset == 10
        again.close()


def test_a_tail_that_is_nearly_full_is_due(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, max_tail_bytes=5000, seal_seconds=3600)
    while w.tail.nbytes < 2500:
        w.append(rows(0, 10))
    assert w.seal_due()
    w.close()
