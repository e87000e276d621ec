"""Reads the tail of a partition that another process on this machine writes, from its WAL files.

Only frames below the writer's watermark are read: they are whole, and as durable as the writer has promised. All of
them must be there without a gap. Damage is an error, and never a shorter tail.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from frazil.clock import boot_id
from frazil.disk.files import Watermark, explained
from frazil.errors import LogCorrupted, WalDamaged
from frazil.framefile import frames
from frazil.log.raw.rows import with_rows
from frazil.log.tail import TailView
from frazil.log.wal.entries import RECORDS, Entry, FileHeader, Kind, decode_records, decode_schema
from frazil.log.wal.recovery import Fingerprint, fingerprint, recover, wal_files

SMALL_READ, LARGE_READ = 1 << 16, 1 << 20
"""So many bytes are read first, and then when there is more. Files have their full size from the start."""
POLL_SECONDS = (0.002, 0.02)
"""The watermark is polled this often: at first, and when nothing has come for a while."""


@dataclass
class _File:
    """One WAL file and the entries that were read from it so far."""

    inode: int
    header: FileHeader | None = None
    schemas: dict[int, pa.Schema] = field(default_factory=dict)
    chain: int = 0
    position: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset up to which the file was read."""
        return self.entries[-1].end if self.entries else self.header.first_offset if self.header else 0

    def entries_from(self, start: int, *, decoded: bool) -> list[Entry]:
        """Return the entries that hold records from `start` on."""
        first = _first_at(self.entries, start)
        if decoded:
            self.entries[first:] = with_rows(self.entries[first:])
        return self.entries[first:]


class WalTail:
    """The tail as WAL files have it. Not thread-safe: each reader has its own."""

    def __init__(self, directory: Path, boot: Callable[[], str] = boot_id) -> None:
        """`boot` returns the boot id of the machine."""
        self._directory = directory
        self._boot = boot
        self._watermark: Watermark | None = None
        self._files: dict[Path, _File] = {}
        self._unsound: tuple[Fingerprint, str | None] | None = None
        """WAL files that lacked acknowledged records, and the damage that explains it, if there is any."""

    def end(self) -> int:
        """Return the offset up to which the writer lets others read."""
        if self._watermark is None:
            try:
                self._watermark = Watermark(self._directory, writable=False)
            except FileNotFoundError:
                return 0
        return self._watermark.offset

    def promised(self) -> int:
        return self.end()

    def is_current(self) -> bool:
        """Tell whether the folder is still the one that was opened, and not another of the same name."""
        return self._watermark is None or self._watermark.is_current()

    def view(self, start: int = 0, *, decoded: bool = True) -> TailView | None:
        """Return the tail up to the current watermark; None when there are no WAL files. Raises on damage."""
        end = self.end()
        with explained("Reading the WAL in", self._directory):
            while not self._catch_up(end):
                pass
        files = [file for _, file in sorted(self._files.items())]
        headers = [file.header for file in files if file.header]
        last = max((file.end for file in files), default=0)
        if files and (last < end or len(headers) < len(files) or _has_gap(files)):
            self._explain()
        if not headers:
            return None
        oldest, newest = headers[0], headers[-1]
        entries = [entry for file in files for entry in file.entries_from(start, decoded=decoded)]
        return TailView(
            oldest.first_offset, last, entries, newest.epochs, frozenset((newest.writer, *newest.former_writers))
        )

    def _explain(self) -> None:
        """Raise unless a reboot, or a file that is being replaced, explains the missing records."""
        now = fingerprint(self._directory)
        if self._unsound is None or self._unsound[0] != now:
            try:
                recover(self._directory, self._boot(), self.end())
                self._unsound = now, None
            except LogCorrupted as error:
                self._unsound = now, str(error)
        if (damage := self._unsound[1]) is not None:
            raise WalDamaged(damage)

    def _catch_up(self, end: int) -> bool:
        """Read new frames. Return False when files changed meanwhile, so that it must be done again."""
        present = wal_files(self._directory)
        self._files = {path: file for path, file in self._files.items() if path in present}
        for path in present:
            try:
                fd = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                return False
            try:
                self._read(path, fd, end)
            finally:
                os.close(fd)
        return True

    def _read(self, path: Path, fd: int, end: int) -> None:
        status = os.fstat(fd)
        known = self._files.get(path)
        if known is None or known.inode != status.st_ino:
            known = self._files[path] = _File(status.st_ino)
        size = SMALL_READ
        while 0 < size <= max(SMALL_READ, LARGE_READ, status.st_size - known.position):
            data = pa.py_buffer(os.pread(fd, size, known.position))
            taken, size = self._take_all(known, data, size, end, path)
            known.position += taken

    def _take_all(self, file: _File, data: pa.Buffer, asked: int, end: int, path: Path) -> tuple[int, int]:
        """Take the whole frames. Return how many bytes they have, and how many to read next, 0 for none."""
        view = memoryview(data)
        taken = 0
        for frame in frames.scan(view):
            if isinstance(frame, frames.Outcome):
                break
            if not self._take(file, data, view, frame, end, path):
                return taken, 0
            taken = frame.end
        missing = frames.size_at(view, taken)
        torn = bool(missing) and taken + (missing or 0) <= data.size
        if missing is None or torn or data.size < asked:
            return taken, 0
        return taken, max(LARGE_READ if taken else SMALL_READ, missing)

    def _take(
        self, file: _File, data: pa.Buffer, view: memoryview, frame: frames.Frame, end: int, path: Path
    ) -> bool:
        frames.check_version(frame, str(path))
        if frame.kind == Kind.HEADER:
            header = FileHeader.decode(frame.body(view))
            file.header, file.schemas, file.chain = header, dict(header.schemas), header.chain
        elif frame.kind == Kind.SCHEMA:
            version, schema = decode_schema(frame.body(view))
            file.schemas[version] = schema
        elif frame.kind in RECORDS:
            entry, _ = decode_records(data, view, frame, file.schemas, file.chain)
            if entry.end > end or entry.offset != file.end:
                return False
            if entry.payload.size < data.size // 2:
                # A slice would keep all that was read with it.
                entry = entry._replace(payload=pa.py_buffer(entry.payload.to_pybytes()))
            file.entries.append(entry)
            file.chain = entry.chain
        return True

    def wait(self, offset: int, timeout: float) -> bool:
        """Block until there is a record at `offset`. Return False when the timeout came first."""
        started = time.monotonic()
        while self.end() <= offset:
            waited = time.monotonic() - started
            if waited >= timeout:
                return False
            time.sleep(_pause(waited))
        return True

    async def wait_async(self, offset: int, timeout: float) -> bool:
        started = time.monotonic()
        while self.end() <= offset:
            waited = time.monotonic() - started
            if waited >= timeout:
                return False
            await asyncio.sleep(_pause(waited))
        return True


def _has_gap(files: list[_File]) -> bool:
    """Tell whether a file that holds records does not go on where the one before it ends."""
    return any(newer.entries and newer.entries[0].offset != older.end for older, newer in pairwise(files))


def _first_at(entries: list[Entry], start: int) -> int:
    """Return the index of the first entry that holds records from `start` on."""
    return bisect_right(entries, start, key=lambda entry: entry.end)


def _pause(waited: float) -> float:
    return POLL_SECONDS[waited > 1]
