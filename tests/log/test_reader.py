from __future__ import annotations

import asyncio
import multiprocessing
import random
import resource
import struct
import threading
import time
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.config.sections.topics import TopicConfig
from frazil.errors import (
    EpochChanged,
    LogCorrupted,
    LogVersionUnsupported,
    OffsetOutOfRange,
    SegmentMissing,
    SegmentsGone,
)
from frazil.log import layout
from frazil.log.follow import follow, follow_async
from frazil.log.log import Log
from frazil.log.reader import Records
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.trim import trim
from frazil.log.wal.recovery import ScannedWal
from frazil.log.wal_follower import WalTail
from frazil.log.writer.group import BatchAppend
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from tests.log.support import SCHEMA, TOPIC, Machine, crash, ids, newest_wal, reader, rows, wal_of, writer


def test_any_range_is_read_whole(any_store: ObjectStore, tmp_path: Path) -> None:
    w = writer(any_store, tmp_path)
    for i in range(3):
        w.append(rows(i * 10, 5))
        w.append(rows(i * 10 + 5, 5))
        w.seal()
    w.append(rows(30, 5))
    r = reader(any_store, w)
    for start in (0, 1, 9, 10, 17, 29, 30, 33, 35):
        for end in (start, 10, 11, 30, 31, 35):
            if start <= end:
                assert ids(r.read(start, end)) == list(range(start, end))
    assert r.bounds()[:3] == (0, 30, 35)
    w.close()


def test_only_the_wanted_columns(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 5))
    w.seal()
    w.append(rows(5, 5))
    runs = list(reader(local_store, w).read(0, columns=["text"]))
    assert [run.batch.schema.names for run in runs] == [["text"], ["text"]]
    w.close()


def test_beyond_the_end_is_an_error_not_a_short_answer(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 5))
    with pytest.raises(OffsetOutOfRange, match="the log ends at 5"):
        reader(local_store, w).read(0, 6)
    with pytest.raises(OffsetOutOfRange):
        reader(local_store, w).read(7)
    w.close()


def test_an_empty_partition_has_nothing_to_read(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    assert list(reader(local_store, w).read(0)) == []
    assert reader(local_store).bounds() == (0, 0, 0, None)
    w.close()


def test_segments_of_an_empty_log_are_not_said_to_be_trimmed(local_store: LocalStore) -> None:
    with pytest.raises(SegmentsGone, match="is empty: no segment holds offset 0"):
        list(SegmentIndex(local_store, TOPIC, 0).run(0, 5))


@pytest.mark.parametrize("missing", [10, 20])
def test_a_missing_segment_is_named(local_store: LocalStore, tmp_path: Path, missing: int) -> None:
    w = writer(local_store, tmp_path)
    for i in range(4):
        w.append(rows(i * 10, 10))
        w.seal()
    local_store.delete([layout.segment_key(TOPIC, 0, missing)])
    with pytest.raises(SegmentMissing, match=f"holds offset {missing}"):
        reader(local_store, w).read(0)
    with pytest.raises(SegmentMissing):
        reader(local_store, w).read(missing + 5)
    assert ids(reader(local_store, w).read(missing + 10)) == list(range(missing + 10, 40))
    w.close()


def test_a_damaged_segment_is_named(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 10))
    segment = w.seal()
    assert segment is not None
    path = tmp_path / "store" / segment.key
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LogCorrupted, match=segment.key):
        reader(local_store).read(0)
    w.close()


def test_no_flipped_bit_of_a_segment_is_read_in_silence(local_store: LocalStore, tmp_path: Path, seed: int) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 200))
    segment = w.seal()
    assert segment is not None
    path = tmp_path / "store" / segment.key
    whole = path.read_bytes()
    expected = [run.batch.to_pylist() for run in reader(local_store).read(0)]
    rng = random.Random(seed)
    noticed = 0
    for _ in range(100):
        data = bytearray(whole)
        bit = rng.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        path.chmod(0o644)
        path.write_bytes(data)
        try:
            assert [run.batch.to_pylist() for run in reader(local_store).read(0)] == expected
        except (LogCorrupted, LogVersionUnsupported):
            noticed += 1
    assert noticed > 50
    w.close()


def test_columns_that_came_earlier_than_their_batch_are_followed_too(local_store: LocalStore, tmp_path: Path) -> None:
    """Two threads can store the younger schema first."""
    w = writer(local_store, tmp_path)
    older = w._learn(SCHEMA).version
    grown = SCHEMA.append(pa.field("extra", pa.string()))
    w.append(pa.record_batch([pa.array([1], pa.int64()), pa.array(["x"]), pa.array(["kept"])], schema=grown))
    w._queue.add(older, rows(0, 1), [BatchAppend(1)], 100)
    w.drain()
    r = reader(local_store, w)
    followed = [row for run in r.read_new(0) for row in run.batch.to_pylist()]
    assert followed == [row for run in r.read(0) for row in run.batch.to_pylist()]
    assert followed[0]["extra"] == "kept"
    w.close()


class TestTrimming:
    def trimmed(self, store: ObjectStore, folder: Path, needed_from: int = 25) -> Machine:
        machine = Machine()
        w = writer(store, folder, machine)
        for i in range(4):
            w.append(rows(i * 10, 10))
            w.seal()
        w.close()
        self.run(store, machine, needed_from)
        return machine

    def run(self, store: ObjectStore, machine: Machine, needed_from: int) -> list[str]:
        return trim(
            store, TOPIC, 0, needed_from=needed_from, grace_seconds=100, now_ms=machine.clock.now_ms()
        ).deleted

    def test_is_marked_at_once_and_deleted_after_the_grace_time(self, any_store: ObjectStore, tmp_path: Path) -> None:
        machine = self.trimmed(any_store, tmp_path)
        with pytest.raises(SegmentsGone, match="the first that is left is 20"):
            reader(any_store).read(5)
        assert ids(reader(any_store).read(20)) == list(range(20, 40))
        assert any_store.get(layout.segment_key(TOPIC, 0, 0)), "a query that began before can still end"
        assert self.run(any_store, machine, 25) == []
        machine.clock.advance(101)
        assert self.run(any_store, machine, 25) == [layout.segment_key(TOPIC, 0, o) for o in (0, 10)]
        assert self.run(any_store, machine, 25) == []
        assert reader(any_store).bounds()[:3] == (20, 40, 40)

    def test_the_newest_segment_always_stays_and_a_restart_goes_on(
        self, local_store: LocalStore, tmp_path: Path
    ) -> None:
        machine = self.trimmed(local_store, tmp_path, needed_from=40)
        machine.clock.advance(101)
        assert len(self.run(local_store, machine, 40)) == 3
        again = writer(local_store, tmp_path, machine)
        assert again.append(rows(40, 1)).offset == 40
        again.seal()
        assert ids(reader(local_store, again).read(30)) == list(range(30, 41))
        again.close()

    def test_with_the_wal_lost_as_well_the_log_goes_on_in_a_new_epoch(
        self, local_store: LocalStore, tmp_path: Path
    ) -> None:
        machine = self.trimmed(local_store, tmp_path / "old", needed_from=40)
        machine.clock.advance(101)
        self.run(local_store, machine, 40)
        again = writer(local_store, tmp_path / "new", machine)
        assert again.append(rows(40, 1)).offset == 40
        assert len(again.tail.epochs.history) == 2
        again.close()

    @pytest.mark.parametrize("ack", ["local", "object"])
    def test_a_writer_that_slept_through_it_does_not_think_it_won(
        self, local_store: LocalStore, tmp_path: Path, ack: str
    ) -> None:
        machine = Machine()
        sleeper = writer(local_store, tmp_path / "sleeper", machine, ack=ack)
        pending = sleeper.submit(rows(1000, 10))
        other = writer(local_store, tmp_path / "other", Machine(1), ack="object")
        for i in range(3):
            other.submit(rows(i * 10, 10))
            other.seal()
        for _ in range(2):
            self.run(local_store, machine, 30)
            machine.clock.advance(101)
        assert sleeper.sealed_end == 0
        with pytest.raises(Exception, match="was trimmed while this writer slept"):
            sleeper.seal()
        if ack == "object":
            with pytest.raises(Exception, match="send them again"):
                pending.result(0)
            assert sleeper.next_offset == 30
        assert ids(reader(local_store).read(20)) == list(range(20, 30))
        crash(sleeper)
        other.close()


class TestEpochs:
    def test_a_position_that_did_not_last_is_told(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path / "lost", Machine(0))
        w.append(rows(0, 10))
        w.seal()
        w.append(rows(10, 10))
        *_, last = reader(local_store, w).read(0)
        assert last.next.offset == 20
        crash(w)
        again = writer(local_store, tmp_path / "new", Machine(1))
        again.append(rows(100, 50))
        r = reader(local_store, again)
        with pytest.raises(EpochChanged, match="ended at offset 10"):
            r.read(last.next.offset, epoch=last.next.epoch)
        assert ids(r.read(10, epoch=last.next.epoch)) == list(range(100, 150)), "the border can be crossed"
        assert [run.epoch for run in r.read(0)] == [last.epoch, again.tail.epochs.current]
        with pytest.raises(EpochChanged, match="unknown"):
            r.read(0, epoch="never heard of")
        again.close()

    def test_also_when_the_new_log_is_shorter(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path / "lost", Machine(0))
        w.append(rows(0, 10))
        w.seal()
        w.append(rows(10, 10))
        epoch = w.tail.epochs.current
        crash(w)
        again = writer(local_store, tmp_path / "new", Machine(1))
        with pytest.raises(EpochChanged):
            reader(local_store, again).read(20, epoch=epoch)
        again.close()


def take(runs: list[Records], into: list[int]) -> None:
    for run in runs:
        into += run.batch.column("id").to_pylist()


class TestFollowing:
    @pytest.mark.parametrize("sync", ["always", "periodic"])
    def test_in_process_sees_everything_in_order(self, local_store: LocalStore, tmp_path: Path, sync: str) -> None:
        w = writer(local_store, tmp_path, sync=sync)
        w.append(rows(0, 5))
        w.seal()
        seen: list[int] = []
        done = threading.Event()

        def run() -> None:
            for records in follow(reader(local_store, w), 0, stop=done.is_set):
                take([records], seen)
                if len(seen) == 200:
                    done.set()

        follower = threading.Thread(target=run)
        follower.start()
        for i in range(5, 200):
            w.append(rows(i, 1))
            if i % 50 == 0:
                w.seal()
        follower.join(20)
        assert seen == list(range(200))
        w.close()

    def test_async_in_process(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        w.append(rows(0, 5))

        async def run() -> list[int]:
            seen: list[int] = []
            producer = asyncio.create_task(produce())
            async for records in follow_async(reader(local_store, w), 2):
                take([records], seen)
                if len(seen) == 98:
                    break
            await producer
            return seen

        async def produce() -> None:
            for i in range(5, 100):
                await w.append_async(rows(i, 1))
                await asyncio.sleep(0)

        assert asyncio.run(asyncio.wait_for(run(), 20)) == list(range(2, 100))
        w.close()

    def test_never_shows_provisional_rows(self, local_store: LocalStore, tmp_path: Path) -> None:
        config = Config(data_dir=tmp_path, topics={TOPIC: TopicConfig(ack="object", linger_ms=50)})
        with Log(config, store=local_store) as log:
            w = log.writer(TOPIC, SCHEMA)
            stable, hot = log.reader(TOPIC, w.partition), log.reader(TOPIC, w.partition, provisional=True)
            w.submit(rows(0, 5))
            assert ids(hot.read(0)) in (list(range(5)), [])
            for records in follow(stable, 0):
                assert records.end <= w.sealed_end
                assert ids([records]) == list(range(5))
                break


def writing_process(folder: Path, pipe: Connection, sync: str) -> None:
    config = Config.model_validate({"data_dir": folder, "log": {"sync": sync}})
    with Log(config) as log:
        w = log.writer(TOPIC, SCHEMA)
        while (command := pipe.recv()) is not None:
            pipe.send(w.seal() is not None if command == "seal" else w.append(rows(command, 1)).offset)


@pytest.mark.parametrize("sync", ["always", "periodic"])
def test_a_follower_in_another_process_sees_each_record_soon_and_once(tmp_path: Path, sync: str) -> None:
    """The generous limit only tells following from polling the store; `make bench` measures the delay."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=writing_process, args=(tmp_path, theirs, sync))
    process.start()
    try:
        ours.send(0)
        ours.recv()
        with Log(Config(data_dir=tmp_path)) as log:
            assert log.partitions(TOPIC) == [0]
            seen: list[int] = []
            finished = threading.Event()

            def run() -> None:
                for records in follow(log.reader(TOPIC, 0), 0, stop=finished.is_set):
                    take([records], seen)

            follower = threading.Thread(target=run)
            follower.start()
            for i in range(1, 120):
                ours.send("seal" if i % 25 == 0 else i)
                ours.recv()
                if i % 25 == 0:
                    ours.send(i)
                    ours.recv()
            deadline = time.monotonic() + 20
            while len(seen) < 120 and time.monotonic() < deadline:
                time.sleep(0.01)
            finished.set()
            follower.join()
            assert seen == list(range(120))
    finally:
        ours.send(None)
        process.join(20)
        process.kill()


def test_another_process_never_sees_past_the_watermark(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 5))
    w.append(rows(5, 5))
    assert w._committer._wal is not None
    w._committer._wal.publish(5)
    view = WalTail(wal_of(tmp_path)).view()
    assert view is not None
    assert view.end == 5
    w._committer._wal.publish(10)
    assert ids(reader(local_store, WalTail(wal_of(tmp_path))).read(0)) == list(range(10))
    w.close()


def test_a_wal_file_that_begins_within_a_segment_repeats_nothing(local_store: LocalStore, tmp_path: Path) -> None:
    """Records that come while others are sealed are in the same file as those."""
    w = writer(local_store, tmp_path, seal_rows=10)
    for first, count in ((0, 10), (10, 5)):
        w.append(rows(first, count))
    w.seal()
    w._dropping.result()
    for first in (15, 20):
        w.append(rows(first, 5))
    w.seal()
    w._dropping.result()
    r = reader(local_store, WalTail(wal_of(tmp_path)))
    tail = r.tail
    assert tail is not None
    view = tail.view()
    assert view is not None
    assert (view.start, w.sealed_end, view.end) == (15, 20, 25)
    for start, end in product(range(26), range(26)):
        if start <= end:
            assert ids(r.read(start, end)) == list(range(start, end))
    w.close()


@pytest.mark.parametrize("length", [40_000, 2_000_000, 4_000_000_000])
def test_a_torn_frame_is_the_end_for_a_follower(local_store: LocalStore, tmp_path: Path, length: int) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 3))
    crash(w)
    path = newest_wal(tmp_path)
    with path.open("r+b") as file:
        file.seek(ScannedWal(path).clean_bytes)
        file.write(struct.pack("<I2sBB", length, b"FZ", 1, 2) + b"x" * 100)
    view = WalTail(wal_of(tmp_path)).view()
    assert view is not None
    assert view.end == 3


def test_a_follower_keeps_no_more_than_the_records(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    tail = WalTail(wal_of(tmp_path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(1000):
        w.append(rows(i, 1))
        tail.view(i)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 40
    w.close()
