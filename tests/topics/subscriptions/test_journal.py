"""Acknowledgements that were stored on a real disk are there, whatever happens."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from frazil.errors import DiskFull, LogCorrupted, LogVersionUnsupported, PartitionLocked, ShutdownError
from frazil.framefile import frames
from frazil.topics.subscriptions.ackfile import ACKS, SUFFIX, AckFolder, LaneKey, ScannedAcks
from frazil.topics.subscriptions.journal import Journal, journal_folder
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription_name import SubscriptionName
from tests.faults.disk_limits import largest_file
from tests.log.support import Machine
from tests.topics.subscriptions.support import crash

PLACE = SubscriptionName("billing", "shop", "orders")
LANE = LaneKey(PLACE, "g1", 0)
OTHER = LaneKey(SubscriptionName("audit", "shop", "orders"), "g2", 3)


class Lane:
    """A progress and the journal it is written to."""

    def __init__(self, journal: Journal, key: LaneKey = LANE, progress: Progress | None = None) -> None:
        self.journal = journal
        self.key = key
        self.progress = progress or Progress(0, "e")
        journal.attach(key, self.progress)

    def ack(self, start: int, end: int) -> asyncio.Future[None]:
        self.progress.acknowledge(start, end)
        return self.journal.record(self.key, [(start, end)])


def newest(folder: Path) -> Path:
    return max(journal_folder(folder).glob(f"*{SUFFIX}"))


def found(folder: Path, boot: str = "first boot") -> dict[LaneKey, Progress]:
    opened = AckFolder(journal_folder(folder), boot)
    opened.close()
    return opened.lanes


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


@pytest.mark.parametrize("sync", ["always", "periodic", "none"])
@pytest.mark.parametrize("killed", [True, False])
def test_what_is_stored_is_found_again(tmp_path: Path, sync: str, killed: bool) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path, Machine().world, sync=sync)  # type: ignore[arg-type]
        one, two = Lane(journal), Lane(journal, OTHER, Progress(10, "f"))
        await one.ack(0, 3)
        await two.ack(12, 14)
        await one.ack(5, 6)
        if killed:
            crash(journal)
        else:
            await journal.close()
        assert found(tmp_path) == {LANE: Progress(3, "e", 0, [(5, 6)]), OTHER: Progress(10, "f", 0, [(12, 14)])}
        again = await Journal.open(tmp_path, Machine().world)
        assert again.recovered(PLACE, "g1") == {0: Progress(3, "e", 0, [(5, 6)])}
        assert again.recovered(PLACE, "g2") == {}, "of another subscription of that name"
        assert again.recovered(OTHER.place, "g2") == {3: Progress(10, "f", 0, [(12, 14)])}
        await again.close()

    run(work)


def test_those_who_come_together_are_written_together(tmp_path: Path) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path)
        lane = Lane(journal)
        await lane.ack(0, 1)
        await asyncio.gather(*(asyncio.shield(lane.ack(number, number + 1)) for number in range(1, 1001)))
        view = memoryview(newest(tmp_path).read_bytes())
        kinds = [frame.kind for frame in frames.scan(view) if isinstance(frame, frames.Frame)]
        assert kinds.count(ACKS) == 1
        assert lane.progress == Progress(1001, "e")
        await journal.close()
        assert found(tmp_path)[LANE] == lane.progress

    run(work)


def test_one_who_gives_up_waiting_takes_nobody_along(tmp_path: Path) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path)
        lane = Lane(journal)

        async def wait() -> None:
            await asyncio.shield(lane.ack(0, 1))

        impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        with suppress(asyncio.CancelledError):
            await impatient
        await journal.close()

    run(work)


def test_cut_off_at_any_byte(tmp_path: Path) -> None:
    """A file that ends anywhere has the groups that are whole, and the next process goes on from them."""

    async def write() -> list[tuple[int, Progress]]:
        journal = await Journal.open(tmp_path / "whole", Machine().world)
        lane = Lane(journal)
        await lane.ack(0, 1)
        states = [(newest(tmp_path / "whole").stat().st_size, lane.progress.copy())]
        for number in range(2, 6):
            await lane.ack(2 * number, 2 * number + 1)
            states.append((newest(tmp_path / "whole").stat().st_size, lane.progress.copy()))
        crash(journal)
        return states

    states = asyncio.run(write())
    data = newest(tmp_path / "whole").read_bytes()
    for size in range(states[0][0], len(data) + 1):
        expected = [progress for end, progress in states if end <= size][-1]
        part = tmp_path / "part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", part)
        newest(part).write_bytes(data[:size])
        assert found(part)[LANE] == expected, size

    async def go_on() -> None:
        newest(part).write_bytes(data[:-3])
        journal = await Journal.open(part, Machine().world)
        lane = Lane(journal, progress=journal.recovered(PLACE, "g1")[0])
        await lane.ack(1, 4)
        crash(journal)
        assert found(part)[LANE] == Progress(5, "e", 0, [(6, 7), (8, 9)])

    asyncio.run(go_on())


def broken(tmp_path: Path, byte: int) -> None:
    async def write() -> None:
        journal = await Journal.open(tmp_path, Machine().world, sync="always")
        lane = Lane(journal)
        for number in range(10):
            await lane.ack(2 * number, 2 * number + 1)
        crash(journal)

    asyncio.run(write())
    with newest(tmp_path).open("r+b") as file:
        file.seek(byte, os.SEEK_END)
        file.write(b"?")


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    broken(tmp_path, -100)
    with pytest.raises(LogCorrupted, match=rf"{newest(tmp_path)} is damaged at byte \d+.*Run: mv -- "):
        found(tmp_path)
    with pytest.raises(LogCorrupted):
        found(tmp_path, "another boot")


def test_after_a_reboot_what_was_never_synced_may_be_missing(tmp_path: Path) -> None:
    async def write() -> None:
        journal = await Journal.open(tmp_path, Machine().world, sync="none")
        lane = Lane(journal)
        for number in range(10):
            await lane.ack(2 * number, 2 * number + 1)
        crash(journal)

    asyncio.run(write())
    with newest(tmp_path).open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"?")
    with pytest.raises(LogCorrupted):
        found(tmp_path)
    progress = found(tmp_path, "another boot")[LANE]
    assert 0 < progress.gap_count < 9


@pytest.mark.parametrize("content", [b"", b"?" * 50])
def test_a_file_without_a_header_is_damaged(tmp_path: Path, content: bytes) -> None:
    broken(tmp_path, -1)
    newest(tmp_path).write_bytes(content)
    with pytest.raises(LogCorrupted, match="at byte 0"):
        found(tmp_path)


def test_a_newer_kind_of_frame_is_named(tmp_path: Path) -> None:
    broken(tmp_path, 0)
    path = newest(tmp_path)
    clean = path.read_bytes()[: ScannedAcks(path).clean_bytes]
    path.write_bytes(clean + b"".join(map(bytes, frames.encode(57, [b"new"]).parts)))
    with pytest.raises(LogVersionUnsupported, match="unknown kind of frame 57"):
        found(tmp_path)


def test_files_are_replaced_when_they_are_large(tmp_path: Path) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path, max_file_bytes=500)
        one, two = Lane(journal), Lane(journal, OTHER)
        for number in range(400):
            await (one if number % 3 else two).ack(2 * number, 2 * number + 1)
        crash(journal)
        files = list(journal_folder(tmp_path).glob(f"*{SUFFIX}"))
        assert len(files) == 1
        assert int(files[0].stem) > 2
        assert found(tmp_path) == {LANE: one.progress, OTHER: two.progress}

    run(work)


def test_a_detached_subscription_is_gone_from_the_next_file(tmp_path: Path) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path, max_file_bytes=1)
        one, two = Lane(journal), Lane(journal, OTHER)
        await one.ack(0, 1)
        await two.ack(0, 1)
        journal.detach(LANE, Progress())
        journal.detach(LANE, one.progress)
        for number in range(200):
            await two.ack(number, number + 1)
        await journal.close()
        assert list(found(tmp_path)) == [OTHER]

    run(work)


def test_what_is_taken_back_stays_so(tmp_path: Path) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path)
        lane = Lane(journal)
        await lane.ack(0, 10)
        lane.progress.rewind(4, "f")
        journal.attach(LANE, lane.progress)
        await lane.ack(5, 6)
        crash(journal)
        assert found(tmp_path)[LANE] == Progress(4, "f", 1, [(5, 6)])

    run(work)


@pytest.mark.parametrize("room", [0, 1, 20, 60])
def test_no_room_on_the_disk(tmp_path: Path, room: int) -> None:
    """The caller gets an error, and the ranges are stored along with the next ones."""

    async def work() -> None:
        journal = await Journal.open(tmp_path, sync="none")
        lane = Lane(journal)
        await lane.ack(0, 1)
        with largest_file(newest(tmp_path).stat().st_size + room):
            waiting = [(await asyncio.wait([lane.ack(2 * n, 2 * n + 1)]))[0].pop() for n in range(1, 9)]
            error = next(done.exception() for done in waiting if done.exception())
            assert isinstance(error, DiskFull)
            assert "no room on the disk" in str(error)
            await asyncio.wait([lane.ack(20, 21)])
        await lane.ack(30, 31)
        crash(journal)
        assert found(tmp_path)[LANE] == lane.progress
        assert lane.progress.has(20)

    run(work)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    async def work() -> None:
        journal = await Journal.open(tmp_path)
        with pytest.raises(PartitionLocked, match=f"in use by process {os.getpid()}"):
            await Journal.open(tmp_path)
        await journal.close()
        with pytest.raises(ShutdownError):
            Lane(journal).ack(0, 1)
        await (await Journal.open(tmp_path)).close()

    run(work)


def test_random_lives(tmp_path: Path, seed: int) -> None:
    """After many lanes, groups, files and crashes, some with a torn end, nothing that was stored is missing."""
    rng = random.Random(seed)
    keys = [LaneKey(SubscriptionName(name, "n", "t"), "g", partition) for name in "ab" for partition in range(2)]
    expected = {key: Progress(0, "e") for key in keys}

    async def life() -> None:
        journal = await Journal.open(
            tmp_path, Machine().world, sync=rng.choice(["always", "none"]), max_file_bytes=rng.choice([300, 10_000])
        )
        lanes = []
        for key in keys:
            known = journal.recovered(key.place, "g").get(key.partition, Progress(0, "e"))
            missing = [each for each in expected[key].gaps if any(known.missing(*each))]
            assert not missing
            assert known.mark >= expected[key].mark
            lanes.append(Lane(journal, key, known))
        for _ in range(rng.randrange(40)):
            waiting = []
            for lane in rng.choices(lanes, k=rng.randint(1, 5)):
                start = rng.randrange(100)
                waiting.append((lane, start, lane.ack(start, start + rng.randint(1, 4))))
            if rng.random() < 0.2:
                lane = rng.choice(lanes)
                lane.progress.rewind(rng.randrange(100), "e")
                journal.attach(lane.key, lane.progress)
                await lane.ack(0, 0)
            for _, _, stored in waiting:
                await stored
            for lane in lanes:
                expected[lane.key] = lane.progress.copy()
        crash(journal)
        if rng.random() < 0.5 and list(journal_folder(tmp_path).glob(f"*{SUFFIX}")):
            with newest(tmp_path).open("ab") as file:
                file.write(rng.randbytes(rng.randint(1, 30)))

    for _ in range(25):
        asyncio.run(life())
