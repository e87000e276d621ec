"""One file of the transaction log, read back: what is clean, what was torn by a crash, what is damaged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from frazil.disk.files import move_away
from frazil.errors import LogVersionUnsupported, TransactionLogDamaged
from frazil.framefile import frames
from frazil.pipeline.txlog.entries import KINDS, Checkpoint, Entry, decode

SUFFIX = ".txlog"
_SLOT = re.compile(r"\d{5}")
_FILE = re.compile(rf"\d{{20}}\{SUFFIX}")


def root(data_dir: Path) -> Path:
    return data_dir / "txlog"


def slot_folder(data_dir: Path, slot: int) -> Path:
    return root(data_dir) / f"{slot:05d}"


def slots(data_dir: Path) -> list[int]:
    """Every slot that was ever used, whether somebody holds it or not."""
    folder = root(data_dir)
    return (
        sorted(int(each.name) for each in folder.iterdir() if _SLOT.fullmatch(each.name)) if folder.is_dir() else []
    )


def file_path(folder: Path, first_number: int) -> Path:
    return folder / f"{first_number:020d}{SUFFIX}"


def files(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(each for each in folder.iterdir() if _FILE.fullmatch(each.name))


@dataclass
class Scanned:
    """A file up to its first flaw."""

    path: Path
    first_number: int
    boot: str = ""
    entries: list[Entry] = field(default_factory=list)
    clean_bytes: int = 0
    synced_to: int = 0
    flaw: str | None = None
    clean_after_flaw: bool = False

    @property
    def next_number(self) -> int:
        return self.first_number + len(self.entries)


def scan(path: Path) -> Scanned:
    """Read a file; it must begin with a checkpoint, which was on disk before the file got its name."""
    view = memoryview(path.read_bytes())
    scanned = Scanned(path, int(path.stem))
    for frame in frames.scan(view):
        if isinstance(frame, frames.Outcome):
            _note_flaw(scanned, view)
            break
        _take(scanned, view, frame)
    if not scanned.entries:
        raise damaged(path, 0, scanned.flaw or "the file is empty")
    return scanned


def _take(scanned: Scanned, view: memoryview, frame: frames.Frame) -> None:
    entry, synced_to = _entry(scanned.path, view, frame)
    if entry.number != scanned.next_number:
        why = f"entry {scanned.next_number} was to follow, but {entry.number} stands there"
        raise damaged(scanned.path, frame.start, why)
    if not scanned.entries:
        if not isinstance(entry, Checkpoint):
            raise damaged(scanned.path, 0, "its first entry is no checkpoint")
        scanned.boot = entry.boot
    scanned.entries.append(entry)
    scanned.synced_to = max(scanned.synced_to, synced_to)
    scanned.clean_bytes = frame.end


def _entry(path: Path, view: memoryview, frame: frames.Frame) -> tuple[Entry, int]:
    frames.check_version(frame, str(path))
    if frame.kind not in KINDS:
        raise LogVersionUnsupported(
            f"{path}, byte {frame.start}: unknown kind of entry {frame.kind}; a newer version of Frazil wrote it. "
            f"Run that version."
        )
    try:
        return decode(frame.kind, frame.body(view))
    except ValueError as error:
        raise damaged(path, frame.start, str(error)) from error


def _note_flaw(scanned: Scanned, view: memoryview) -> None:
    rest = len(view) - scanned.clean_bytes
    if rest == 0:
        return
    scanned.flaw = f"{rest:,} bytes before entry {scanned.next_number} are not a whole frame"
    later = frames.next_clean(view, scanned.clean_bytes + frames.ALIGN)
    while later is not None:
        _, synced_to = _entry(scanned.path, view, later)
        scanned.clean_after_flaw = True
        scanned.synced_to = max(scanned.synced_to, synced_to)
        later = frames.next_clean(view, later.end)


def is_torn(scanned: Scanned, boot: str) -> bool:
    """Whether the flaw of a newest file is the rest of a write nobody relies on, and not damage.

    After a reboot, pages that were never synced may be missing in the middle: from the first such byte on, and never
    before what was known to be on disk, the file counts as torn.
    """
    lost_unsynced = scanned.boot != boot and scanned.clean_bytes >= scanned.synced_to
    return not scanned.clean_after_flaw or lost_unsynced


def damaged(path: Path, byte: int, why: str) -> TransactionLogDamaged:
    return TransactionLogDamaged(
        f"{path} is damaged at byte {byte}: {why}. No rows depend on it (offsets are in the tables), and the "
        f"pipeline goes on in another folder. Files of batches that it names and that never committed are "
        f"left to orphan removal. When you have looked at it, run: {move_away(path.parent)}"
    )
