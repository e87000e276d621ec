"""Reading a WAL directory back: what is clean, what was torn by a crash, what is damaged.

- A torn end of the newest file is the rest of a write nobody was told of: it is cut off.
- Clean frames behind a bad one, fewer records than were acknowledged, or any flaw in an older file is damage:
  `LogCorrupted` names file and byte, and nothing is changed.
- After a reboot, pages that were never synced may be missing in the middle: from the first such byte on, and
  never before what was known to be on disk, the newest file counts as torn.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from frazil.errors import LogCorrupted, LogVersionUnsupported
from frazil.framefile import frames
from frazil.log.wal.entries import RECORDS, Entry, FileHeader, Kind, decode_records, decode_schema

SUFFIX = ".wal"

logger = logging.getLogger(__name__)


@dataclass
class ScannedFile:
    """One WAL file, read up to its first flaw."""

    path: Path
    header: FileHeader
    schemas: dict[int, pa.Schema]
    entries: list[Entry] = field(default_factory=list)
    end: int = 0
    chain: int = 0
    clean_bytes: int = 0
    synced_to: int = 0
    closed: bool = False
    flaw: str | None = None
    """Why reading stopped before the end of the file."""
    clean_after_flaw: bool = False


@dataclass
class Recovered:
    """What a WAL directory holds."""

    files: list[ScannedFile]
    lost_unsynced: bool
    """The machine was restarted before everything was synced: acknowledged records may be missing at the end."""

    @property
    def header(self) -> FileHeader:
        return self.files[-1].header

    @property
    def entries(self) -> list[Entry]:
        return [entry for file in self.files for entry in file.entries]

    @property
    def start(self) -> int:
        return self.files[0].header.first_offset

    @property
    def end(self) -> int:
        return self.files[-1].end

    @property
    def chain(self) -> int:
        return self.files[-1].chain

    @property
    def schemas(self) -> dict[int, pa.Schema]:
        return self.files[-1].schemas


def wal_files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{SUFFIX}"))


def is_wal(directory: Path) -> bool:
    """Whether somebody wrote a WAL there, even if its files are gone."""
    return bool(wal_files(directory)) or (directory / "watermark").exists()


Fingerprint = tuple[tuple[str, int, int, int], ...]


def fingerprint(directory: Path) -> Fingerprint:
    """What changes whenever somebody changes, replaces or removes a WAL file."""
    found = []
    for path in (*wal_files(directory), directory / "watermark"):
        with suppress(FileNotFoundError):
            status = path.stat()
            found.append((path.name, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def map_file(path: Path) -> pa.Buffer:
    if path.stat().st_size == 0:
        return pa.py_buffer(b"")
    return pa.memory_map(str(path)).read_buffer()


def scan_file(path: Path) -> ScannedFile:
    """Read a WAL file up to its first flaw. A file without a clean header is damaged from the start."""
    data = map_file(path)
    view = memoryview(data)
    first = frames.read_frame(view, 0)
    if not isinstance(first, frames.Frame):
        what = "the file is empty" if not len(view) else "its header cannot be read"
        raise frames.damaged(str(path), 0, what)
    frames.check_version(first, str(path))
    if first.kind != Kind.HEADER:
        raise frames.damaged(str(path), 0, "its first frame is not a header")
    header = FileHeader.decode(first.body(view))
    scanned = ScannedFile(
        path, header, dict(header.schemas), end=header.first_offset, chain=header.chain, clean_bytes=first.end
    )
    for frame in frames.scan(view, first.end):
        if isinstance(frame, frames.Outcome):
            _note_flaw(scanned, view)
            break
        _take_frame(scanned, data, view, frame)
    return scanned


def _take_frame(scanned: ScannedFile, data: pa.Buffer, view: memoryview, frame: frames.Frame) -> None:
    frames.check_version(frame, str(scanned.path))
    if frame.kind in RECORDS:
        entry, synced_to = decode_records(data, view, frame, scanned.schemas, scanned.chain)
        if entry.offset != scanned.end:
            raise frames.damaged(
                str(scanned.path), frame.start, f"offset {scanned.end} was to follow, but {entry.offset} stands there"
            )
        scanned.entries.append(entry)
        scanned.end, scanned.chain = entry.end, entry.chain
        scanned.synced_to = max(scanned.synced_to, synced_to)
    elif frame.kind == Kind.SCHEMA:
        version, schema = decode_schema(frame.body(view))
        scanned.schemas[version] = schema
    elif frame.kind == Kind.CLOSED:
        scanned.closed = True
    else:
        raise LogVersionUnsupported(f"{scanned.path}, byte {frame.start}: unknown kind of frame {frame.kind}.")
    scanned.clean_bytes = frame.end


def _note_flaw(scanned: ScannedFile, view: memoryview) -> None:
    rest = bytes(view[scanned.clean_bytes :])
    if rest.count(0) == len(rest):
        return
    scanned.flaw = f"what follows offset {scanned.end} is not a whole frame"
    later = frames.next_clean(view, scanned.clean_bytes + frames.ALIGN)
    while later is not None:
        if later.kind in RECORDS:
            entry, synced_to = decode_records(pa.py_buffer(view), view, later, _AnySchema(), 0)
            # A frame of older records can only be a value that looks like one, inside the frame that was torn.
            if entry.offset > scanned.end:
                scanned.clean_after_flaw = True
                scanned.synced_to = max(scanned.synced_to, synced_to)
        later = frames.next_clean(view, later.end)


class _AnySchema(dict[int, pa.Schema]):
    """For frames behind a flaw, whose schema may be lost with it."""

    def __missing__(self, key: int) -> pa.Schema:
        return pa.schema([])


def recover(directory: Path, boot: str, acknowledged: int) -> Recovered | None:
    """Read all files, or raise; None when there are none. Changes nothing."""
    paths = wal_files(directory)
    if not paths:
        return None
    files = [scan_file(path) for path in paths]
    for older, newer in pairwise(files):
        if older.flaw:
            raise frames.damaged(str(older.path), older.clean_bytes, older.flaw)
        if (older.end, older.chain) != (newer.header.first_offset, newer.header.chain):
            raise LogCorrupted(
                f"{directory}: {older.path.name} ends at offset {older.end}, but {newer.path.name} does not go on "
                f"from there. A file between them is missing, or one is not of this log."
            )
    newest = files[-1]
    rebooted = newest.header.boot != boot
    if newest.flaw:
        unsynced = rebooted and newest.clean_bytes >= newest.synced_to
        if newest.clean_after_flaw and not unsynced:
            raise frames.damaged(str(newest.path), newest.clean_bytes, f"{newest.flaw}, but whole frames follow")
    may_lack_acknowledged = rebooted and newest.header.sync != "always" and not newest.closed
    if newest.end < acknowledged and not may_lack_acknowledged:
        raise LogCorrupted(
            f"{newest.path} ends at offset {newest.end} (byte {newest.clean_bytes}), but records up to "
            f"{acknowledged} were acknowledged. `frazil log repair` goes on without them and reports what is lost."
        )
    return Recovered(files, lost_unsynced=may_lack_acknowledged)
