"""Scans files of numbers, the simplest log there is, and tells torn ends from damage."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import LogCorrupted, LogVersionUnsupported
from frazil.framefile import frames
from tests.framefile.support import SIZE, ScannedNumbers, content, flipped


def scanned(folder: Path, data: bytes) -> ScannedNumbers:
    path = folder / "numbers"
    path.write_bytes(data)
    return ScannedNumbers(path)


def test_a_clean_file_has_no_flaw(tmp_path: Path) -> None:
    file = scanned(tmp_path, content(0, 1, 2))
    assert (file.numbers, file.clean_bytes, file.flaw) == ([0, 1, 2], 3 * SIZE, None)
    file.check_torn("first boot")
    file.check_torn("second boot")


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.data())
def test_a_file_cut_anywhere_is_torn_and_not_damaged(
    tmp_path_factory: pytest.TempPathFactory, count: int, data: st.DataObject
) -> None:
    whole = content(*range(count))
    cut = data.draw(st.integers(SIZE, len(whole)))
    file = scanned(tmp_path_factory.mktemp("cut"), whole[:cut])
    assert file.numbers == list(range(cut // SIZE))
    assert file.clean_bytes == cut // SIZE * SIZE
    assert (file.flaw is None) == (cut % SIZE == 0)
    file.check_torn("first boot")


@pytest.mark.parametrize(("data", "why"), [(b"", "the file is empty"), (b"x" * 40, "40 bytes are no frame")])
def test_a_file_without_a_clean_frame_is_damaged(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(LogCorrupted, match=f"numbers, byte 0: {why}"):
        scanned(tmp_path, data)


def test_clean_frames_behind_a_flaw_are_damage(tmp_path: Path) -> None:
    file = scanned(tmp_path, flipped(content(0, 1, 2), SIZE + 9))
    assert (file.numbers, file.clean_after_flaw) == ([0], True)
    assert file.torn_end() == {
        "file": str(tmp_path / "numbers"),
        "byte": SIZE,
        "what": f"{2 * SIZE} bytes are no frame",
    }
    with pytest.raises(LogCorrupted, match=f"numbers, byte {SIZE}: .*, but whole frames follow"):
        file.check_torn("first boot")


def test_a_restart_of_the_machine_explains_what_was_never_synced_and_nothing_else(tmp_path: Path) -> None:
    unsynced = scanned(tmp_path, flipped(content(0, 1, 2, synced_to=SIZE), SIZE + 9))
    unsynced.check_torn("second boot")
    synced = scanned(tmp_path, flipped(content(0, 1) + content(2, synced_to=2 * SIZE), SIZE + 9))
    assert synced.synced_to == 2 * SIZE, "the frame behind the flaw tells"
    with pytest.raises(LogCorrupted, match=f"byte {SIZE}"):
        synced.check_torn("second boot")


def test_a_frame_that_proves_nothing_leaves_the_file_torn(tmp_path: Path) -> None:
    """A value of a torn frame may look like a frame."""
    file = scanned(tmp_path, flipped(content(0, 1, 0), SIZE + 9))
    assert not file.clean_after_flaw
    file.check_torn("first boot")


def test_bytes_that_belong_to_a_whole_file_are_no_flaw(tmp_path: Path) -> None:
    file = scanned(tmp_path, content(0) + bytes(100))
    assert (file.clean_bytes, file.flaw) == (SIZE, None)


def test_a_frame_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    newer = bytearray(content(0, 1))
    newer[SIZE + 6] = frames.VERSION + 1
    newer[-4:] = struct.pack("<I", zlib.crc32(bytes(newer[SIZE:-4])))
    with pytest.raises(LogVersionUnsupported, match=f"byte {SIZE}"):
        scanned(tmp_path, bytes(newer))
