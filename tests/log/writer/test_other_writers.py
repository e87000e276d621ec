"""Two processes write one partition, whose records are only in memory until they are sealed."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from frazil.errors import (
    PartitionFenced,
    PartitionTaken,
    ShutdownError,
)
from frazil.log.positions import Origin, Sequence, Source
from frazil.log.wal.recovery import wal_files
from frazil.log.writer.group import Group
from frazil.log.writer.writer import PartitionWriter
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from tests.log.support import Machine, crash, ids, reader, rows, wal_of, writer


class TestOtherWriters:
    def test_with_a_wal_the_loser_stops_and_keeps_its_records(self, any_store: ObjectStore, tmp_path: Path) -> None:
        here, there = writer(any_store, tmp_path / "here"), writer(any_store, tmp_path / "there", Machine(1))
        here.append(rows(0, 5))
        there.append(rows(100, 7))
        assert there.seal()
        with pytest.raises(PartitionTaken, match="frazil log repair"):
            here.seal()
        with pytest.raises(PartitionTaken):
            here.append(rows(5, 1))
        assert here.seal_in() is None
        crash(here)
        with pytest.raises(PartitionTaken):
            writer(any_store, tmp_path / "here")
        assert wal_files(wal_of(tmp_path / "here"))
        assert ids(reader(any_store).read(0)) == list(range(100, 107))
        there.close()

    def test_two_copies_of_one_wal_directory_are_told_apart(self, local_store: LocalStore, tmp_path: Path) -> None:
        first = writer(local_store, tmp_path / "a")
        first.append(rows(0, 5))
        crash(first)
        shutil.copytree(tmp_path / "a" / "wal", tmp_path / "b" / "wal")
        one, other = writer(local_store, tmp_path / "a"), writer(local_store, tmp_path / "b")
        one.append(rows(5, 5))
        other.append(rows(50, 5))
        one.seal()
        with pytest.raises(PartitionTaken):
            other.seal()
        one.close()
        other.close()

    def test_without_a_wal_the_loser_drops_and_goes_on(self, any_store: ObjectStore, tmp_path: Path) -> None:
        here = writer(any_store, tmp_path / "here", ack="object")
        there = writer(any_store, tmp_path / "there", Machine(1), ack="object")
        lost = here.submit(rows(0, 5), Origin(source=Source("k", "id", 5)))
        won = there.submit(rows(100, 7), Origin(source=Source("k", "id", 7)))
        there.seal()
        assert won.result(1).offset == 0
        with pytest.raises(PartitionFenced):
            here.seal()
        with pytest.raises(PartitionFenced):
            lost.result(1)
        with pytest.raises(PartitionFenced):
            here.append(rows(5, 1))
        assert here.resume().source("k") == Source("k", "id", 7)
        again = here.submit(rows(107, 1))
        here.seal()
        assert again.result(1).offset == 7
        assert ids(reader(any_store).read(0)) == list(range(100, 108))
        here.close()
        there.close()


class TestObjectAck:
    def test_is_acknowledged_when_sealed_and_not_before(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, ack="object")
        pending = [w.submit(rows(i * 2, 2)) for i in range(3)]
        assert not any(p.done() for p in pending)
        w.seal()
        assert [p.result(0).offset for p in pending] == [0, 2, 4]
        assert pending[0].result().durability == "object"
        assert not wal_files(wal_of(tmp_path))
        w.close()

    def test_a_repeat_of_what_is_not_sealed_waits_as_well(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, ack="object")
        origin = Origin(sequence=Sequence("p", 1))
        first, repeat = w.submit(rows(0, 1), origin), w.submit(rows(0, 1), origin)
        assert not repeat.done()
        w.seal()
        assert first.result(0).offset == repeat.result(0).offset == 0
        assert w.submit(rows(0, 1), origin).result(0).duplicate, "sealed already: known at once"
        w.close()

    def test_what_was_not_sealed_is_not_there_after_a_restart(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, ack="object")
        w.submit(rows(0, 3), Origin(source=Source("k", "id", 3)))
        w.seal()
        w.submit(rows(3, 3), Origin(source=Source("k", "id", 6)))
        crash(w)
        again = writer(local_store, tmp_path, Machine(2), ack="object")
        assert again.next_offset == 3
        assert again.feeders.source("k") == Source("k", "id", 3)
        assert again.tail.epochs == w.tail.epochs, "nobody was told of it: no new epoch"
        again.close()

    def test_closing_fails_those_who_wait(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, ack="object")
        pending = w.submit(rows(0, 1))
        w.close()
        with pytest.raises(ShutdownError):
            pending.result(1)


class Interleaved:
    """Calls a function in another thread when a group was stored, before its committer goes on."""

    def __init__(self, w: PartitionWriter, then: Callable[[], object]) -> None:
        self._stored, self._then = w._stored, then
        w._stored = self._call  # type: ignore[method-assign]

    def _call(self, group: Group) -> None:
        thread = threading.Thread(target=self._then)
        thread.start()
        thread.join(0.2)
        self._stored(group)


class TestFencedInTheMiddle:
    """A seal while a group is being stored neither acknowledges it wrongly nor forgets it."""

    def test_an_append_that_is_dropped_is_not_acknowledged(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path / "here", ack="object")
        other = writer(local_store, tmp_path / "there", Machine(7), ack="object")
        first = w.submit(rows(100, 1))
        won = other.submit(rows(0, 5))
        other.seal()
        won.result(1)

        def fence() -> None:
            with suppress(PartitionFenced):
                w.seal()

        Interleaved(w, fence)
        second = w.submit(rows(200, 1))
        for pending in (first, second):
            with pytest.raises(PartitionFenced):
                pending.result(5)
        assert ids(reader(local_store).read(0)) == list(range(5))
        other.close()
        w.close()

    def test_an_append_that_is_sealed_at_once_is_acknowledged(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, ack="object")
        Interleaved(w, w.seal)
        pending = w.submit(rows(0, 1))
        w.seal()
        assert pending.result(5).offset == 0
        w.close()

    def test_what_was_queued_before_a_fence_stays_out_after_it(self, local_store: LocalStore, tmp_path: Path) -> None:
        def upto(position: int) -> Origin:
            return Origin(source=Source("k", "id", position))

        w = writer(local_store, tmp_path / "here", ack="object")
        other = writer(local_store, tmp_path / "there", Machine(7), ack="object")
        w.submit(rows(0, 1), upto(1))
        other.submit(rows(0, 1), upto(1))
        other.seal()
        with w._queue.lock:
            w._queue.lead()
        queued = [w.submit(rows(i, 1), upto(i + 1)) for i in (1, 2)]
        with pytest.raises(PartitionFenced):
            w.seal()
        source = w.resume().source("k")
        assert source == Source("k", "id", 1)
        w._lead()
        for pending in queued:
            with pytest.raises(PartitionFenced):
                pending.result(1)
        for i in range(1, 4):
            w.submit(rows(i, 1), upto(i + 1))
        w.seal_all()
        assert ids(reader(local_store).read(0)) == [0, 1, 2, 3]
        other.close()
        w.close()
