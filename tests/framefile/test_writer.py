from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frazil.errors import DiskFull, FrazilIoError, LogBroken
from frazil.framefile.folder import file_path
from frazil.framefile.log_writer import LogWriter
from frazil.framefile.writer import FrameWriter
from tests.faults.disk_limits import largest_file
from tests.framefile.support import SIZE, ScannedNumbers, content, number_frame

FAILING = "Input/output error"


def refuse(*_: object) -> None:
    raise OSError(errno.EIO, FAILING)


def path_of(folder: Path, number: int) -> Path:
    return file_path(folder, number, ".numbers")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    writer = LogWriter(tmp_path, contents="numbers", beginning="Beginning")
    writer.begin(path_of(tmp_path, 0), number_frame(0))
    yield writer
    writer.close()


def test_a_file_gets_its_name_when_its_first_frame_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = FrameWriter(tmp_path)
    assert (writer.is_open, writer.path) == (False, tmp_path)
    synced: list[list[str]] = []
    monkeypatch.setattr(
        "frazil.framefile.writer.sync_file", lambda _: synced.append([each.name for each in tmp_path.iterdir()])
    )
    writer.begin(path_of(tmp_path, 5), number_frame(5))
    assert synced == [[path_of(tmp_path, 5).with_suffix(".new").name]]
    assert path_of(tmp_path, 5).read_bytes() == content(5)
    assert writer.position == writer.synced == SIZE
    writer.close()
    writer.close()


def test_frames_follow_each_other_and_sync_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = FrameWriter(tmp_path)
    writer.begin(path_of(tmp_path, 0), number_frame(0))
    assert writer.append([*number_frame(1).parts, *number_frame(2).parts]) == SIZE
    assert (writer.position, writer.synced) == (3 * SIZE, SIZE)
    writer.sync()
    assert writer.synced == 3 * SIZE
    monkeypatch.setattr("frazil.framefile.writer.sync_data", refuse)
    writer.sync()
    assert ScannedNumbers(writer.path).numbers == [0, 1, 2]
    writer.close()


@pytest.mark.parametrize("call", ["os.pwritev", "frazil.framefile.writer.sync_file", "pathlib.Path.rename"])
def test_when_no_file_can_be_begun_the_current_one_goes_on(
    tmp_path: Path, log: LogWriter, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(call, refuse)
        with pytest.raises(FrazilIoError, match=f"Beginning {path_of(tmp_path, 1)}: {FAILING}"):
            log.begin(path_of(tmp_path, 1), number_frame(1))
    log.append(number_frame(1).parts)
    assert ScannedNumbers(path_of(tmp_path, 0)).numbers == [0, 1]
    assert [each.name for each in tmp_path.iterdir()] == [path_of(tmp_path, 0).name]


@pytest.mark.parametrize("room", [0, 1, SIZE - 1])
def test_nothing_stays_of_an_append_that_failed(log: LogWriter, room: int) -> None:
    with largest_file(SIZE + room), pytest.raises(DiskFull, match=f"Appending to {log.path}: no room on the disk"):
        log.append(number_frame(1).parts)
    assert log.path.read_bytes() == content(0)
    assert log.append(number_frame(1).parts) == SIZE
    assert log.path.read_bytes() == content(0, 1)


SYNC_DATA = "frazil.framefile.writer.sync_data"
SYNC_FOLDER = "frazil.framefile.writer.FrameWriter.sync_folder"


def append(log: LogWriter, number: int) -> None:
    log.append(number_frame(number).parts)


def begin(log: LogWriter, number: int) -> None:
    log.begin(path_of(log.path.parent, number), number_frame(number))


@pytest.mark.parametrize(
    ("failing_calls", "step"),
    [
        ([SYNC_DATA], lambda log: log.sync()),
        ([SYNC_DATA], lambda log: log.settle()),
        ([SYNC_DATA], lambda log: begin(log, 2)),
        ([SYNC_FOLDER], lambda log: begin(log, 2)),
        (["os.pwritev", "os.ftruncate"], lambda log: append(log, 2)),
    ],
    ids=["sync", "settle", "begin", "name", "undo"],
)
def test_after_a_failed_sync_nothing_is_written(
    log: LogWriter, monkeypatch: pytest.MonkeyPatch, failing_calls: list[str], step: Callable[[LogWriter], None]
) -> None:
    append(log, 1)
    with monkeypatch.context() as failing:
        for call in failing_calls:
            failing.setattr(call, refuse)
        with pytest.raises(LogBroken, match="the newest numbers may or may not"):
            step(log)
    assert log.broken == (
        f"{log.path}: the disk failed ({FAILING}), so the newest numbers may or may not be stored. "
        f"Restart to read them back."
    )
    before = log.path.read_bytes()
    with pytest.raises(LogBroken):
        append(log, 2)
    with pytest.raises(LogBroken):
        begin(log, 3)
    with pytest.raises(LogBroken):
        log.sync()
    assert log.path.read_bytes() == before
