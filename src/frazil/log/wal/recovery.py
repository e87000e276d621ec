"""Reads a WAL directory back after a stop or a crash.

A torn end of the newest file is cut off. Any other flaw, in that file or an older one, and fewer records than were
acknowledged are damage: `LogCorrupted` names file and byte, and nothing is changed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from frazil.errors import ChecksumMismatch, LogCorrupted, LogVersionUnsupported
from frazil.framefile import frames
from frazil.framefile.scan import ScannedFile
from frazil.log.wal.entries import RECORDS, Entry, FileHeader, Kind, decode_records, decode_schema

SUFFIX = ".wal"


class ScannedWal(ScannedFile):
    """One WAL file, read up to its first flaw. A file without a clean header is damaged from the start."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.entries: list[Entry] = []
        self.closed = False
        """This says whether the writer stopped cleanly."""
        self._data = map_file(path)
        view = memoryview(self._data)
        first = self._first_frame(view)
        self.header = FileHeader.decode(first.body(view))
        self.boot = self.header.boot
        self.schemas = dict(self.header.schemas)
        self.end, self.chain = self.header.first_offset, self.header.chain
        self.clean_bytes = first.end
        self._scan(view, first.end)

    def _first_frame(self, view: memoryview) -> frames.Frame:
        first = frames.read_frame(view, 0)
        if not isinstance(first, frames.Frame):
            raise self.damaged(0, "the file is empty" if not len(view) else "its header cannot be read")
        frames.check_version(first, str(self.path))
        if first.kind != Kind.HEADER:
            raise self.damaged(0, "its first frame is not a header")
        return first

    def _read_frame(self, view: memoryview, frame: frames.Frame) -> int:
        if frame.kind in RECORDS:
            entry, synced_to = decode_records(self._data, view, frame, self.schemas, self.chain)
            if entry.offset != self.end:
                raise self.damaged(frame.start, f"offset {self.end} was to follow, but {entry.offset} stands there")
            self.entries.append(entry)
            self.end, self.chain = entry.end, entry.chain
            return synced_to
        if frame.kind == Kind.SCHEMA:
            version, schema = decode_schema(frame.body(view))
            self.schemas[version] = schema
        elif frame.kind == Kind.CLOSED:
            self.closed = True
        else:
            raise LogVersionUnsupported(f"{self.path}, byte {frame.start}: unknown kind of frame {frame.kind}.")
        return 0

    def _read_frame_after_flaw(self, view: memoryview, frame: frames.Frame) -> int | None:
        if frame.kind not in RECORDS:
            return None
        entry, synced_to = decode_records(self._data, view, frame, _AnySchema(), 0)
        # A frame of older records can only be a value that looks like one, inside the frame that was torn.
        return synced_to if entry.offset > self.end else None

    def _describe_flaw(self, rest: memoryview) -> str | None:
        zeros = bytes(rest).count(0)
        # The file has its full size from the start.
        return None if zeros == len(rest) else f"what follows offset {self.end} is not a whole frame"

    def damaged(self, byte: int, why: str) -> LogCorrupted:
        return ChecksumMismatch(
            f"{self.path} is damaged at byte {byte}: {why}. `frazil log verify` shows the extent, `frazil log "
            f"repair` salvages what is clean."
        )


class _AnySchema(dict[int, pa.Schema]):
    """The schema of a frame behind a flaw may be lost with the flaw: any schema will do to read its offset."""

    def __missing__(self, key: int) -> pa.Schema:
        return pa.schema([])


@dataclass
class Recovered:
    """The contents of a WAL directory."""

    files: list[ScannedWal]
    lost_unsynced: bool
    """The machine was rebooted before everything was synced: acknowledged records may be missing at the end."""

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
    """Tell whether somebody wrote a WAL there, even if its files are gone."""
    return bool(wal_files(directory)) or (directory / "watermark").exists()


Fingerprint = tuple[tuple[str, int, int, int], ...]


def fingerprint(directory: Path) -> Fingerprint:
    """Return a value that changes whenever somebody changes, replaces or removes a WAL file."""
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


def recover(directory: Path, boot: str, acknowledged: int) -> Recovered | None:
    """Read all files, or raise. Return None when there are none. Nothing is changed."""
    paths = wal_files(directory)
    if not paths:
        return None
    files = [ScannedWal(path) for path in paths]
    for older, newer in pairwise(files):
        if older.flaw:
            raise older.damaged(older.clean_bytes, older.flaw)
        if (older.end, older.chain) != (newer.header.first_offset, newer.header.chain):
            raise LogCorrupted(
                f"{directory}: {older.path.name} ends at offset {older.end}, but {newer.path.name} does not go on "
                f"from there. A file between them is missing, or one is not of this log."
            )
    newest = files[-1]
    newest.check_torn(boot)
    may_lack_acknowledged = newest.boot != boot and newest.header.sync != "always" and not newest.closed
    if newest.end < acknowledged and not may_lack_acknowledged:
        raise LogCorrupted(
            f"{newest.path} ends at offset {newest.end} (byte {newest.clean_bytes}), but records up to "
            f"{acknowledged} were acknowledged. `frazil log repair` goes on without them and reports what is lost."
        )
    return Recovered(files, lost_unsynced=may_lack_acknowledged)
