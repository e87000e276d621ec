"""`verify` finds damage, and reports nothing that is in order."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from frazil.framefile import frames
from frazil.log import layout
from frazil.log.wal.entries import Kind
from tests.log.check.wal_cases import (
    TOPIC,
    batch,
    check,
    cut,
    fill,
    flip,
    opened,
    problems,
    surveyed,
    wal_directory,
)


def segment(folder: Path, first: int) -> Path:
    return folder / "data/store" / layout.segment_key(TOPIC, 0, first)


def test_a_sound_partition(folder: Path) -> None:
    assert check(folder) == []


@pytest.mark.parametrize("number", [0, 4, 8])
def test_a_flipped_bit_in_a_frame(folder: Path, number: int) -> None:
    harmed = surveyed(folder).records[number]
    flip(harmed.path, harmed.frame.start + 40)
    found = problems(folder)
    assert (str(harmed.path), harmed.frame.start) in [(each.where, each.byte) for each in found]


def test_a_damaged_header_and_an_empty_file(folder: Path) -> None:
    first, second, _ = sorted(wal_directory(folder).glob("*.wal"))
    flip(first, 30)
    cut(second, 0)
    told = {(each.where, each.byte) for each in problems(folder)}
    assert {(str(first), 0), (str(second), 0)} <= told


def test_a_file_cut_below_what_was_acknowledged(folder: Path) -> None:
    newest = surveyed(folder).files[-1]
    cut(newest.path, newest.records[-1].frame.start + 8)
    (found,) = problems(folder)
    assert found.where == str(newest.path)
    assert "were acknowledged" in found.what


def test_a_torn_end_is_only_noted(folder: Path) -> None:
    newest = surveyed(folder).files[-1]
    with newest.path.open("ab") as file:
        file.write(b"".join(frames.encode(Kind.RECORDS, [b"x" * 100]).parts)[:60])
    (found,) = check(folder)
    assert (found.kind, found.where) == ("note", str(newest.path))
    assert f"byte {newest.size}" in found.what


def test_a_newer_version(folder: Path) -> None:
    newest = surveyed(folder).files[-1]
    data = bytearray(b"".join(frames.encode(Kind.RECORDS, [b"x" * 100]).parts))
    data[6] = frames.VERSION + 1
    data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "little")
    with newest.path.open("ab") as file:
        file.write(data)
    (found,) = problems(folder)
    assert "newer version" in found.what


def test_a_missing_wal_file(folder: Path) -> None:
    middle = surveyed(folder).files[1]
    middle.path.unlink()
    (found,) = problems(folder)
    assert "was to follow" in found.what


def test_files_of_two_histories(folder: Path, tmp_path: Path) -> None:
    """The offsets of the files fit together, but they were never one WAL."""
    fill(tmp_path / "other")
    newest = sorted(wal_directory(folder).glob("*.wal"))[-1]
    shutil.copy(wal_directory(tmp_path / "other") / newest.name, newest)
    assert any("another history" in each.what for each in problems(folder))


def test_a_missing_a_cut_and_a_foreign_segment(folder: Path) -> None:
    with opened(folder) as log:
        writer = log.writer(TOPIC)
        writer.seal_all()
        writer.append(batch(50))
        writer.seal_all()
        writer.append(batch(51))
    first, second, third = sorted((folder / "data/store/queue" / TOPIC / "00000").glob("*.parquet"))
    assert check(folder) == []
    whole = third.read_bytes()
    cut(third, len(whole) - 20)
    assert [str(each.where) for each in problems(folder)] == [f"queue/{TOPIC}/00000/{third.name}"]
    third.write_bytes(first.read_bytes())
    assert any("says that it is" in each.what for each in problems(folder))
    third.write_bytes(whole)
    second.unlink()
    (found,) = problems(folder)
    assert found.where.endswith(first.name)
    assert "leaves a gap" in found.what


def test_segments_that_the_wal_does_not_know(folder: Path, tmp_path: Path) -> None:
    fill(tmp_path / "other")
    shutil.copy(segment(tmp_path / "other", 0), segment(folder, 0))
    assert any("does not hold the records" in each.what for each in problems(folder))


def test_a_segment_of_rows_that_are_not_there(folder: Path) -> None:
    path = segment(folder, 0)
    table = pq.read_table(path)
    metadata = pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table.slice(1))
        writer.add_key_value_metadata({b"frazil": metadata[b"frazil"]})
    assert any("does not match its checksum" in each.what for each in problems(folder))


def test_a_schema_that_is_gone_or_damaged(folder: Path) -> None:
    (path,) = (folder / "data/store" / layout.schema_prefix(TOPIC)).glob("*.json")
    path.write_text("{")
    assert any("cannot be read" in each.what for each in problems(folder))
    path.unlink()
    assert any("version 1 of the schema does not exist" in each.what for each in problems(folder))


def test_leftovers_are_noted(folder: Path) -> None:
    (wal_directory(folder) / "00000000000000000099.new").write_bytes(b"")
    (found,) = check(folder)
    assert found.kind == "note"


def test_a_running_writer_is_never_taken_for_damage(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from tests.log.check.wal_cases import TOPIC, batch, opened

with opened(Path(sys.argv[1])) as log:
    writer = log.writer(TOPIC, batch(0).schema)
    number = 0
    while True:
        writer.append(batch(number))
        number += 1
        if number % 50 == 0:
            writer.seal_all()
            # What is looked at must not grow faster than a busy machine can look.
            time.sleep(0.02)
"""
    writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    try:
        while not list((tmp_path / "data/store/queue" / TOPIC / "00000").glob("*.parquet")):
            time.sleep(0.02)
        for _ in range(20):
            assert problems(tmp_path) == []
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
    assert problems(tmp_path) == []
