"""`repair` handles every kind of damage to a WAL."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import (
    EpochChanged,
    LogCorrupted,
    LogVersionUnsupported,
    PartitionLocked,
    PartitionTaken,
    SegmentMissing,
)
from frazil.framefile import frames
from frazil.log.positions import Origin
from frazil.log.wal.entries import Kind
from frazil.log.wal.recovery import wal_files
from tests.examples import examples
from tests.log.check.wal_cases import (
    APPENDS,
    ROWS,
    SEALED,
    TOPIC,
    batch,
    cut,
    fill,
    flip,
    opened,
    origin,
    problems,
    repaired,
    repairing,
    stored,
    surveyed,
    wal_directory,
)

ALL = list(range(APPENDS * ROWS))


def test_a_clean_wal_needs_nothing(folder: Path) -> None:
    before = sorted(wal_directory(folder).iterdir())
    plan, done = repaired(folder)
    assert (plan.action, done) == ("nothing", None)
    assert "clean" in plan.reason
    assert sorted(wal_directory(folder).iterdir()) == before


def test_records_behind_a_damaged_frame_go_on_under_new_offsets(folder: Path) -> None:
    harmed = surveyed(folder).records[2]
    assert harmed.entry.offset == (SEALED + 2) * ROWS
    with opened(folder) as log:
        old = log.reader(TOPIC, 0).bounds()
    assert old.epochs
    flip(harmed.path, (harmed.frame.start + harmed.frame.end) // 2)
    with opened(folder) as log, pytest.raises(LogCorrupted, match=f"{harmed.path}.*byte {harmed.frame.start}"):
        log.writer(TOPIC)

    plan, done = repaired(folder)

    assert plan.action == "salvage"
    assert [(d.path, d.start, d.end) for d in plan.damages] == [(harmed.path, harmed.frame.start, harmed.frame.end)]
    assert plan.salvage
    assert plan.salvage.lost == [(harmed.entry.offset, harmed.entry.end)]
    assert done
    assert {path.name for path in plan.files} < {path.name for path in done.set_aside.iterdir()}
    survivors = [i for i in ALL if not harmed.entry.offset <= i < harmed.entry.end]
    assert stored(folder) == survivors
    assert problems(folder) == []
    with opened(folder) as log:
        reader = log.reader(TOPIC, 0)
        assert [*reader.read(harmed.entry.offset, epoch=old.epochs.current)]
        with pytest.raises(EpochChanged):
            reader.read(harmed.entry.end, epoch=old.epochs.current)


def test_appends_and_seals_go_on_and_repeated_appends_are_recognised(folder: Path) -> None:
    harmed = surveyed(folder).records[4]
    flip(harmed.path, harmed.frame.start + 20)
    repaired(folder)
    with opened(folder) as log:
        writer = log.writer(TOPIC)
        again = writer.append(batch(APPENDS - 1), origin(APPENDS - 1))
        assert again.duplicate
        assert again.offset == writer.next_offset - ROWS
        sealed, unsealed = (writer.append(batch(n), Origin(request=n.to_bytes(16))) for n in (0, APPENDS - 2))
        assert (sealed.duplicate, sealed.offset, unsealed.duplicate) == (True, 0, True)
        writer.append(batch(APPENDS), origin(APPENDS))
        writer.seal_all()
    survivors = [i for i in range((APPENDS + 1) * ROWS) if not harmed.entry.offset <= i < harmed.entry.end]
    assert stored(folder) == survivors
    assert problems(folder) == []


def test_damage_to_what_is_sealed_loses_nothing_and_keeps_the_epoch(tmp_path: Path) -> None:
    """A crash between put and deletion leaves WAL files whose records are sealed."""
    fill(tmp_path)
    shutil.copytree(wal_directory(tmp_path), tmp_path / "kept")
    with opened(tmp_path) as log:
        log.writer(TOPIC).seal()
        epoch = log.reader(TOPIC, 0).bounds().epochs
    shutil.rmtree(wal_directory(tmp_path))
    (tmp_path / "kept").rename(wal_directory(tmp_path))
    harmed = surveyed(tmp_path).records[1]
    flip(harmed.path, harmed.frame.start + 20)
    plan, _ = repaired(tmp_path)
    assert plan.salvage
    assert plan.salvage.lost == []
    assert stored(tmp_path) == ALL
    with opened(tmp_path) as log:
        assert log.reader(TOPIC, 0).bounds().epochs == epoch
        log.writer(TOPIC).append(batch(APPENDS))
    assert problems(tmp_path) == []


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_damaged_header_loses_nothing(folder: Path, which: int) -> None:
    flip(surveyed(folder).files[which].path, 30)
    plan, _ = repaired(folder)
    assert plan.salvage
    assert plan.salvage.lost == []
    assert stored(folder) == ALL
    assert problems(folder) == []


def test_a_missing_file_is_a_gap(folder: Path) -> None:
    middle = surveyed(folder).files[1]
    middle.path.unlink()
    with opened(folder) as log, pytest.raises(LogCorrupted, match="missing"):
        log.writer(TOPIC)
    plan, _ = repaired(folder)
    assert plan.salvage
    lost = (middle.records[0].entry.offset, middle.records[-1].entry.end)
    assert plan.salvage.lost == [lost]
    assert stored(folder) == [i for i in ALL if not lost[0] <= i < lost[1]]


@pytest.mark.parametrize("size", [0, 7, 100, 1500])
def test_a_file_cut_below_what_was_acknowledged(folder: Path, size: int) -> None:
    newest = surveyed(folder).files[-1]
    cut(newest.path, size)
    with opened(folder) as log, pytest.raises(LogCorrupted):
        log.writer(TOPIC)
    plan, _ = repaired(folder)
    assert plan.salvage
    kept = plan.salvage.end
    assert plan.salvage.lost == [(kept, len(ALL))]
    assert stored(folder) == ALL[:kept]
    assert problems(folder) == []


def test_a_torn_end_is_left_to_the_next_start(folder: Path) -> None:
    newest = surveyed(folder).files[-1]
    with newest.path.open("ab") as file:
        file.write(b"".join(frames.encode(Kind.RECORDS, [b"x" * 100]).parts)[:60])
    plan, done = repaired(folder)
    assert (plan.action, done) == ("nothing", None)
    assert f"byte {newest.size}" in plan.reason
    assert stored(folder) == ALL


def test_a_newer_version_is_not_touched(folder: Path) -> None:
    newest = surveyed(folder).files[-1]
    encoded = frames.encode(Kind.RECORDS, [b"x" * 100])
    data = bytearray(b"".join(encoded.parts))
    data[6] = frames.VERSION + 1
    data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "little")
    with newest.path.open("ab") as file:
        file.write(data)
    with pytest.raises(LogVersionUnsupported, match=f"byte {newest.size}"):
        repaired(folder)


def test_a_partition_being_written_is_refused(folder: Path) -> None:
    with opened(folder) as log:
        log.writer(TOPIC)
        with pytest.raises(PartitionLocked, match="being written"), repairing(folder):
            pass


def test_records_of_an_overtaken_writer_go_to_a_new_partition(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    folder = tmp_path / "a"
    copy = tmp_path / "b"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "data/store")
    (copy / "data/store").symlink_to(folder / "data/store")
    with opened(copy) as log:
        log.writer(TOPIC).append(batch(100))
        log.writer(TOPIC).seal_all()
    with opened(folder) as log, pytest.raises(PartitionTaken):
        log.writer(TOPIC, partition=0)

    plan, done = repaired(folder)

    assert plan.action == "move"
    assert done
    assert done.partition == 1
    mine = ALL[SEALED * ROWS :]
    assert stored(folder, 1) == mine
    with opened(folder) as log:
        again = log.writer(TOPIC, partition=1).append(batch(APPENDS - 1), origin(APPENDS - 1))
        assert again.duplicate
        assert log.adopt_orphans() == 0
    assert stored(folder, 0)[: SEALED * ROWS] == ALL[: SEALED * ROWS]
    assert problems(folder, 1) == []
    assert repaired(folder)[0].action == "nothing"


def test_a_store_without_the_segments(folder: Path) -> None:
    for path in (folder / "data/store/queue" / TOPIC / "00000").glob("*.parquet"):
        path.unlink()
    with opened(folder) as log, pytest.raises(SegmentMissing):
        log.writer(TOPIC, partition=0)
    plan, done = repaired(folder)
    assert plan.action == "move"
    assert done
    assert stored(folder, done.partition) == ALL[SEALED * ROWS :]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), which=st.integers(0, 2), bit=st.integers(0, 7))
def test_any_flipped_bit(sound: Path, tmp_path: Path, place: float, which: int, bit: int) -> None:
    folder = tmp_path / "any"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    path = sorted(wal_directory(folder).glob("*.wal"))[which]
    flip(path, int(place * path.stat().st_size), bit)
    plan, _ = repaired(folder)
    lost = plan.salvage.lost if plan.salvage else []
    assert sum(each.rows for each in lost) <= ROWS
    assert stored(folder) == [i for i in ALL if not any(each.start <= i < each.end for each in lost)]
    with opened(folder) as log:
        log.writer(TOPIC).append(batch(APPENDS))
    assert problems(folder) == []


@pytest.mark.parametrize("case", ["damaged", "taken"])
def test_a_repair_killed_at_any_step_loses_nothing(sound: Path, tmp_path: Path, case: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.log.check.repair_killed", str(sound), str(tmp_path), case],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert told.returncode == 0, told.stderr
    assert int(told.stdout.split()[-1]) > 10


def test_wal_files_that_were_deleted_are_missed(folder: Path) -> None:
    """The watermark remembers what was acknowledged."""
    for path in wal_files(wal_directory(folder)):
        path.unlink()
    assert any("no WAL files" in found.what for found in problems(folder))
    with opened(folder) as log, pytest.raises(LogCorrupted, match="has no WAL"):
        log.writer(TOPIC)
    plan, _ = repaired(folder)
    assert plan.action == "forget"
    assert "are lost" in plan.reason
    with opened(folder) as log:
        writer = log.writer(TOPIC)
        assert len(writer.tail.epochs.history) == 2
    assert problems(folder) == []
