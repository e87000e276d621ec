"""Appends to one partition: what is stored, what is refused, and what is stored once."""

from __future__ import annotations

import asyncio
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import (
    EmptyBuffer,
    LogBroken,
    LogFull,
    RecordTooLarge,
    SchemaMismatch,
    SequenceTooOld,
    ShutdownError,
    WriteFailed,
)
from frazil.log.positions import Origin, Positions, Sequence, Source
from frazil.log.wal.entries import Entry
from frazil.log.writer.commit import Committer
from frazil.log.writer.writer import PartitionWriter
from frazil.store.local import LocalStore
from tests.log.support import Machine, crash, ids, reader, rows, writer


def test_offsets_are_dense_from_zero(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    acks = [w.append(rows(i, n)) for i, n in enumerate([3, 1, 5])]
    assert [(a.offset, a.rows, a.durability) for a in acks] == [(0, 3, "local"), (3, 1, "local"), (4, 5, "local")]
    w.close()


@pytest.mark.parametrize("sync", ["always", "periodic", "none"])
def test_threads_and_tasks_append_together(local_store: LocalStore, tmp_path: Path, sync: str) -> None:
    w = writer(local_store, tmp_path, sync=sync)
    offsets: list[int] = []

    def from_thread(name: int) -> None:
        offsets.extend(w.append(rows(name * 1000 + i, 1)).offset for i in range(50))

    async def from_task(name: int) -> None:
        for i in range(50):
            offsets.append((await w.append_async(rows(name * 1000 + i, 1))).offset)

    async def tasks() -> None:
        await asyncio.gather(*(from_task(n) for n in range(8, 16)))

    threads = [threading.Thread(target=from_thread, args=(n,)) for n in range(8)]
    threads.append(threading.Thread(target=lambda: asyncio.run(tasks())))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offsets) == list(range(800))
    found = ids(reader(local_store, w).read(0))
    assert sorted(found) == sorted(n * 1000 + i for n in range(16) for i in range(50))
    for n in range(16):
        own = [i for i in found if i // 1000 == n]
        assert own == sorted(own), "the order of one appender holds"
    w.close()


def test_submitted_appends_are_acknowledged_later(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, sync="always")
    pending = [w.submit(rows(i, 1)) for i in range(100)]
    assert [p.result(timeout=10).offset for p in pending] == list(range(100))
    w.close()


def test_cancelling_one_append_leaves_the_others_of_its_group_alone(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, sync="always")

    async def run() -> list[object]:
        tasks = [asyncio.create_task(w.append_async(rows(i, 1))) for i in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(run())
    assert [type(o).__name__ for o in outcomes] == ["Ack", "CancelledError", "Ack", "Ack"]
    w.close()


class TestDuplicates:
    def test_a_repeated_sequence_gets_its_first_offset(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        first = w.append(rows(0, 4), Origin(sequence=Sequence("p", 1)))
        w.append(rows(4, 2))
        again = w.append(rows(0, 4), Origin(sequence=Sequence("p", 1)))
        assert (again.offset, again.rows, again.duplicate) == (first.offset, 4, True)
        assert w.next_offset == 6
        w.close()

    @pytest.mark.parametrize("sealed", [False, True])
    @pytest.mark.parametrize("clean", [False, True])
    def test_is_recognised_after_a_restart(
        self, local_store: LocalStore, tmp_path: Path, *, sealed: bool, clean: bool
    ) -> None:
        w = writer(local_store, tmp_path)
        w.append(rows(0, 3), Origin(sequence=Sequence("p", 7), request=b"h" * 16))
        if sealed:
            w.seal()
        w.close() if clean else crash(w)
        again = writer(local_store, tmp_path)
        assert again.append(rows(0, 3), Origin(sequence=Sequence("p", 7))).duplicate
        assert again.append(rows(0, 3), Origin(request=b"h" * 16)).duplicate
        assert again.next_offset == 3
        again.close()

    def test_twice_in_one_group_is_stored_once(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, sync="always")

        async def both() -> list[tuple[int, bool]]:
            origin = Origin(request=b"same bytes here!")
            acks = await asyncio.gather(*(w.append_async(rows(0, 2), origin) for _ in range(5)))
            return sorted((a.offset, a.duplicate) for a in acks)

        assert asyncio.run(both()) == [(0, False)] + [(0, True)] * 4
        assert w.next_offset == 2
        w.close()

    def test_one_bad_sequence_does_not_fail_its_group(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        for n in range(8):
            w.append(rows(n, 1), Origin(sequence=Sequence("p", n)))
        with pytest.raises(SequenceTooOld):
            w.append(rows(0, 1), Origin(sequence=Sequence("p", 0)))
        assert w.append(rows(8, 1)).offset == 8
        w.close()


class TestLimits:
    def test_an_append_over_the_limit_is_refused(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, max_append_bytes=1000)
        with pytest.raises(RecordTooLarge, match="over the limit of 1,000"):
            w.append(rows(0, 1000))
        assert w.append(rows(0, 3)).offset == 0
        w.close()

    def test_a_slice_of_a_large_batch_counts_by_its_own_size(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, max_append_bytes=10_000)
        assert w.append(rows(0, 100_000).slice(500, 3)).rows == 3
        assert w.tail.nbytes < 10_000, "and keeps nothing of the rest alive"
        w.close()

    def test_no_rows_is_an_error(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        with pytest.raises(EmptyBuffer):
            w.append(rows(0, 0))
        w.close()

    def test_a_full_tail_makes_appends_wait_and_then_fail(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path, max_tail_bytes=5000, append_timeout=0.05)
        while w.tail.nbytes < 4500:
            w.append(rows(w.next_offset, 10))
        with pytest.raises(LogFull, match="no room"):
            w.append(rows(0, 100))
        with pytest.raises(LogFull, match="no room"):
            asyncio.run(w.append_async(rows(0, 100)))
        before = w.next_offset
        w.seal()
        assert w.append(rows(0, 1)).offset == before
        w.close()

    @pytest.mark.parametrize("waits_in", ["thread", "task"])
    def test_room_lets_a_waiting_append_go_on(self, local_store: LocalStore, tmp_path: Path, waits_in: str) -> None:
        w = writer(local_store, tmp_path, max_tail_bytes=5000, append_timeout=30)
        count = 0
        while w.tail.nbytes < 4500:
            w.append(rows(count, 10))
            count += 10
        offsets: list[int] = []

        def append() -> None:
            batch = rows(count, 100)
            ack = w.append(batch) if waits_in == "thread" else asyncio.run(w.append_async(batch))
            offsets.append(ack.offset)

        waiting = threading.Thread(target=append)
        waiting.start()
        waiting.join(0.1)
        assert not offsets
        w.seal()
        waiting.join(10)
        assert offsets == [count]
        w.close()


class TestSchema:
    def test_new_columns_and_wider_numbers_flow_through(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        w.append(rows(0, 2))
        wider = pa.record_batch({"id": pa.array([2], pa.int64()), "extra": pa.array([1.5])})
        with pytest.raises(SchemaMismatch):
            w.append(wider)
        required = pa.field("id", pa.int64(), nullable=False)
        w.append(wider.cast(pa.schema([required, ("extra", pa.float64())])))
        expected = [
            {"id": 0, "text": "row 0", "extra": None},
            {"id": 1, "text": "row 1", "extra": None},
            {"id": 2, "text": None, "extra": 1.5},
        ]
        for step in (lambda: None, w.seal):
            step()
            assert [r for run in reader(local_store, w).read(0) for r in run.batch.to_pylist()][-1] == expected[-1]
            assert [r for run in reader(local_store, w).read(0) for r in run.batch.to_pylist()] == expected
        crash(w)

    def test_survives_a_crash_before_sealing(self, local_store: LocalStore, tmp_path: Path) -> None:
        w = writer(local_store, tmp_path)
        w.append(rows(0, 1))
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])
        w.append(pa.record_batch([pa.array([1], pa.int64()), pa.array([5], pa.int32())], schema=schema))
        crash(w)
        again = writer(local_store, tmp_path)
        again.seal()
        read = [r for run in reader(local_store).read(0) for r in run.batch.to_pylist()]
        assert read == [{"id": 0, "text": "row 0", "n": None}, {"id": 1, "text": None, "n": 5}]
        again.close()


class TestPoison:
    """Records that could never be sealed are refused when they come."""

    @pytest.mark.parametrize(
        "column",
        [
            pa.array([2**60], pa.timestamp("s")),
            pa.array([[1, 2]], pa.list_view(pa.int64())),
            pa.array([{"a": None}], pa.struct([pa.field("a", pa.int64(), nullable=False)])),
            pa.array([[None]], pa.list_(pa.field("item", pa.int64(), nullable=False))),
        ],
        ids=["seconds", "view", "struct", "list"],
    )
    def test_a_value(self, local_store: LocalStore, tmp_path: Path, column: pa.Array) -> None:
        w = writer(local_store, tmp_path)
        batch = pa.record_batch([pa.array([0], pa.int64()), column], schema=_with_column(column))
        with suppress(SchemaMismatch):
            w.append(batch)
        w.append(rows(1, 1))
        w.seal_all()
        assert w.sealed_end == w.next_offset
        w.close()

    def test_an_origin(self) -> None:
        with pytest.raises(ValueError, match="hash has 1 to 64 bytes"):
            Origin(request=b"r" * 300)
        with pytest.raises(ValueError, match="1 to 1000 characters"):
            Origin(sequence=Sequence("p" * 2000, 1))

    @pytest.mark.parametrize("ack", ["local", "object"])
    def test_should_something_slip_through_appenders_hear_of_it(
        self, local_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ack: str
    ) -> None:
        def refuse(*_: object) -> pa.Buffer:
            raise pa.ArrowInvalid("cannot be written")

        w = writer(local_store, tmp_path, ack=ack)
        pending = w.submit(rows(0, 1))
        monkeypatch.setattr("frazil.log.segments.segment.encode", refuse)
        with pytest.raises(LogBroken, match="offset 0 to 1 cannot be sealed"):
            w.seal()
        if ack == "object":
            with pytest.raises(LogBroken):
                pending.result(1)
        with pytest.raises(LogBroken):
            w.append(rows(1, 1))
        crash(w)


def _with_column(column: pa.Array) -> pa.Schema:
    return pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", column.type)])


def test_refusals_do_not_pile_up(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.close()
    for _ in range(3):
        with pytest.raises(ShutdownError) as caught:
            w.append(rows(0, 1))
        assert len(list(traceback.walk_tb(caught.tb))) < 10


def test_a_clock_that_is_set_back_delays_nothing(local_store: LocalStore, tmp_path: Path) -> None:
    machine = Machine()
    w = writer(local_store, tmp_path, machine, seal_seconds=5)
    w.append(rows(0, 1))
    machine.clock.ms -= 3_600_000
    machine.clock.ticks += 3_600_000 + 6_000
    assert w.seal_due()
    w.close()


def test_one_sequence_with_two_hashes_in_one_group_is_stored_once(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, sync="always")

    async def both() -> None:
        origins = (Origin(sequence=Sequence("p", 1), request=bytes([i] * 16)) for i in range(2))
        await asyncio.gather(*(w.append_async(rows(0, 2), origin) for origin in origins))

    w.append(rows(5, 1))
    asyncio.run(both())
    assert w.next_offset == 3
    w.close()


def test_a_closed_writer_refuses(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    w.append(rows(0, 1))
    w.close()
    with pytest.raises(ShutdownError):
        w.append(rows(1, 1))
    again = writer(local_store, tmp_path)
    assert again.next_offset == 1
    again.close()


def test_nothing_of_a_source_is_taken_after_an_append_that_failed(
    local_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position of the source would be past the missing records, and nobody would send them again."""
    w = writer(local_store, tmp_path, ack="object")
    w.submit(rows(0, 1), Origin(Source("orders", "0", 1)))

    def fail(*_: object) -> Entry:
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "_entry", fail)
        lost = w.submit(rows(1, 1), Origin(Source("orders", "0", 2)))
    with pytest.raises(WriteFailed, match="no room"):
        lost.result(1)
    with pytest.raises(WriteFailed, match="none is taken after it: no room"):
        w.submit(rows(2, 1), Origin(Source("orders", "0", 3)))
    w.seal_all()
    assert (w.sealed_end, w.feeders.sources) == (1, [Source("orders", "0", 1)])
    crash(w)


@pytest.mark.parametrize("applied", [True, False], ids=["known already", "not known yet"])
@pytest.mark.parametrize("leave", [crash, PartitionWriter.close], ids=["killed", "closed"])
def test_a_store_that_is_cut_off_is_not_known_without_its_rows(
    local_store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: bool, leave: Any
) -> None:
    """Ctrl-C, or a lack of memory, interrupts it while sealed files are still being deleted."""
    w = writer(local_store, tmp_path)
    w.append(rows(0, 1), Origin(request=b"a"))
    apply = Positions.apply

    def cut_off(positions: Positions, *arguments: Any) -> None:
        if applied:
            apply(positions, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Positions, "apply", cut_off)
        with pytest.raises(KeyboardInterrupt):
            w.append(rows(1, 1), Origin(request=b"b"))
    w.seal()
    leave(w)
    again = writer(local_store, tmp_path)
    assert again.append(rows(1, 1), Origin(request=b"b")).offset == 1
    again.seal_all()
    assert ids(reader(local_store).read(0)) == [0, 1]
    again.close()
