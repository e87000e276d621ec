"""The folders and files of the transaction log, and how one file is read back."""

from __future__ import annotations

import re
from pathlib import Path

from frazil.disk.files import move_away
from frazil.errors import LogVersionUnsupported, TransactionLogDamaged
from frazil.framefile import frames
from frazil.framefile.folder import numbered_files
from frazil.framefile.scan import ScannedFile
from frazil.pipeline.txlog.entries import KINDS, Checkpoint, Entry, decode

SUFFIX = ".txlog"
_SLOT = re.compile(r"\d{5}")


def root(data_dir: Path) -> Path:
    return data_dir / "txlog"


def slot_folder(data_dir: Path, slot: int) -> Path:
    return root(data_dir) / f"{slot:05d}"


def slots(data_dir: Path) -> list[int]:
    """Return every slot that was ever used, whether somebody holds it or not."""
    folder = root(data_dir)
    return (
        sorted(int(each.name) for each in folder.iterdir() if _SLOT.fullmatch(each.name)) if folder.is_dir() else []
    )


def files(folder: Path) -> list[Path]:
    """Return the files of a slot, oldest first."""
    return numbered_files(folder, SUFFIX)


class ScannedTxlog(ScannedFile):
    """A file, read up to its first flaw. Its checkpoint was on disk before the file got its name."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.first_number = int(path.stem)
        self.entries: list[Entry] = []
        self._scan(memoryview(path.read_bytes()))

    @property
    def next_number(self) -> int:
        return self.first_number + len(self.entries)

    def _read_frame(self, view: memoryview, frame: frames.Frame) -> int:
        entry, synced_to = self._decode(view, frame)
        if entry.number != self.next_number:
            raise self.damaged(
                frame.start, f"entry {self.next_number} was to follow, but {entry.number} stands there"
            )
        if not self.entries:
            if not isinstance(entry, Checkpoint):
                raise self.damaged(0, "its first entry is no checkpoint")
            self.boot = entry.boot
        self.entries.append(entry)
        return synced_to

    def _read_frame_after_flaw(self, view: memoryview, frame: frames.Frame) -> int:
        frames.check_version(frame, str(self.path))
        _, synced_to = self._decode(view, frame)
        return synced_to

    def _decode(self, view: memoryview, frame: frames.Frame) -> tuple[Entry, int]:
        if frame.kind not in KINDS:
            raise LogVersionUnsupported(
                f"{self.path}, byte {frame.start}: unknown kind of entry {frame.kind}; a newer version of Frazil "
                f"wrote it. Run that version."
            )
        try:
            return decode(frame.kind, frame.body(view))
        except ValueError as error:
            raise self.damaged(frame.start, str(error)) from error

    def _describe_flaw(self, rest: memoryview) -> str:
        return f"{len(rest):,} bytes before entry {self.next_number} are not a whole frame"

    def damaged(self, byte: int, why: str) -> TransactionLogDamaged:
        return TransactionLogDamaged(
            f"{self.path} is damaged at byte {byte}: {why}. No rows depend on it (offsets are in the tables), and "
            f"the pipeline goes on in another folder. Files of batches that it names and that never committed are "
            f"left to orphan removal. When you have looked at it, run: {move_away(self.path.parent)}"
        )
