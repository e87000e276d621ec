"""Reads WAL files in any state: every clean frame, and every damaged range of bytes between them.

Nothing is changed. Files are not mapped, because a running writer may truncate its file while it is read.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from frazil.disk.files import read_watermark
from frazil.errors import FrazilError, LogVersionUnsupported
from frazil.framefile import frames
from frazil.log.wal.entries import RECORDS, Entry, FileHeader, Kind, decode_records, decode_schema
from frazil.log.wal.recovery import wal_files

UNREADABLE = (FrazilError, pa.ArrowException, OSError, ValueError, KeyError)
"""The errors that reading a damaged segment can raise."""

FindSchema = Callable[[int], pa.Schema | None]
"""It finds a topic's schema by its version. It is needed when the frame with the schema is damaged."""


class Damage(NamedTuple):
    """A range of bytes that are not whole frames."""

    path: Path
    start: int
    end: int
    why: str


class RecordsFrame(NamedTuple):
    """A clean frame of records, and the file it is in."""

    path: Path
    frame: frames.Frame
    entry: Entry
    data: pa.Buffer

    @property
    def raw(self) -> memoryview:
        return memoryview(self.data)[self.frame.start : self.frame.end]


class FrameLine(NamedTuple):
    """A frame as `frazil log inspect --frames` shows it."""

    start: int
    end: int
    kind: str
    offset: int | None = None
    rows: int | None = None


@dataclass
class FileSurvey:
    path: Path
    size: int
    header: FileHeader | None = None
    records: list[RecordsFrame] = field(default_factory=list)
    frames: list[FrameLine] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    torn: Damage | None = None
    """The bytes after the last clean frame: the rest of an interrupted write, or damage."""
    closed: bool = False
    newer: str | None = None
    """The reason why a newer version of Frazil is needed, if one is."""

    @property
    def used(self) -> int:
        """The number of bytes that were written: a file has its full size from the start."""
        ends = [frame.end for frame in self.frames] + [damage.end for damage in self.damages]
        return min(self.size, max([*ends, self.torn.end if self.torn else 0], default=0))

    @property
    def end(self) -> int | None:
        if self.records:
            return self.records[-1].entry.end
        return self.header.first_offset if self.header else None


@dataclass
class WalSurvey:
    directory: Path
    acknowledged: int
    """The watermark as it was before the files were read."""
    files: list[FileSurvey]

    @property
    def records(self) -> list[RecordsFrame]:
        return [found for file in self.files for found in file.records]

    @property
    def headers(self) -> list[FileHeader]:
        return [file.header for file in self.files if file.header]

    @property
    def damages(self) -> list[Damage]:
        """All damage. A torn end counts as damage in any file but the newest."""
        torn = [file.torn for file in self.files[:-1] if file.torn]
        return [damage for file in self.files for damage in file.damages] + torn

    @property
    def newer(self) -> str | None:
        return next((file.newer for file in self.files if file.newer), None)


def survey(directory: Path, find_schema: FindSchema) -> WalSurvey:
    """Read a WAL directory. Files that a writer deletes meanwhile are left out: their records are sealed."""
    acknowledged = read_watermark(directory)
    files = []
    for path in wal_files(directory):
        try:
            files.append(survey_file(path, find_schema))
        except FileNotFoundError:
            continue
    return WalSurvey(directory, acknowledged, files)


def is_written(directory: Path) -> bool:
    """Tell whether a process holds the directory's lock at this moment."""
    try:
        descriptor = os.open(directory / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def survey_file(path: Path, find_schema: FindSchema) -> FileSurvey:
    data = pa.py_buffer(path.read_bytes())
    view = memoryview(data)
    found = FileSurvey(path, len(view))
    reader = _FileReader(found, data, view, find_schema)
    at = 0
    while isinstance(frame := _next(view, at), frames.Frame):
        if frame.start > at:
            found.damages.append(_damage(path, view, at, frame.start))
        reader.take(frame)
        if found.newer:
            return found
        at = frame.end
    if bytes(view[at:]).strip(b"\0"):
        found.torn = _damage(path, view, at, len(view))
    elif not len(view):
        found.damages.append(Damage(path, 0, 0, "the file is empty"))
    return found


def _next(view: memoryview, at: int) -> frames.Frame | None:
    frame = frames.read_frame(view, at)
    if isinstance(frame, frames.Frame):
        return frame
    if not bytes(view[at : at + frames.ALIGN]).strip(b"\0") and not bytes(view[at:]).strip(b"\0"):
        return None
    return frames.next_clean(view, at + frames.ALIGN)


def _damage(path: Path, view: memoryview, start: int, end: int) -> Damage:
    outcome = frames.read_frame(view, start)
    cut_short = outcome is frames.Outcome.NEED_MORE and end == len(view)
    return Damage(path, start, end, "a frame is cut short" if cut_short else "its checksum or its header is wrong")


class _FileReader:
    def __init__(self, found: FileSurvey, data: pa.Buffer, view: memoryview, find_schema: FindSchema) -> None:
        self._found = found
        self._data = data
        self._view = view
        self._find_schema = find_schema
        self._schemas: dict[int, pa.Schema] = {}
        self._chain = 0

    def take(self, frame: frames.Frame) -> None:
        line = FrameLine(frame.start, frame.end, f"kind {frame.kind}")
        try:
            frames.check_version(frame, str(self._found.path))
            line = self._decode(frame)
        except LogVersionUnsupported as error:
            self._found.newer = str(error)
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            self._found.damages.append(Damage(self._found.path, frame.start, frame.end, f"it means nothing: {error}"))
        self._found.frames.append(line)

    def _decode(self, frame: frames.Frame) -> FrameLine:
        body = frame.body(self._view)
        if frame.kind == Kind.HEADER:
            header = FileHeader.decode(body)
            self._found.header = self._found.header or header
            self._schemas.update(header.schemas)
            self._chain = header.chain
            return FrameLine(frame.start, frame.end, "header", header.first_offset)
        if frame.kind == Kind.SCHEMA:
            version, schema = decode_schema(body)
            self._schemas[version] = schema
            return FrameLine(frame.start, frame.end, f"schema {version}")
        if frame.kind == Kind.CLOSED:
            self._found.closed = True
            return FrameLine(frame.start, frame.end, "closed", json.loads(bytes(body))["end_offset"])
        if frame.kind not in RECORDS:
            raise LogVersionUnsupported(
                f"{self._found.path}, byte {frame.start}: unknown kind of frame {frame.kind}; a newer version of "
                f"Frazil knows it."
            )
        entry, _ = decode_records(
            self._data, self._view, frame, _Schemas(self._schemas, self._find_schema), self._chain
        )
        if entry.batch().num_rows != entry.rows:
            raise ValueError(f"it holds {entry.batch().num_rows} rows, not {entry.rows}")
        self._chain = entry.chain
        self._found.records.append(RecordsFrame(self._found.path, frame, entry, self._data))
        return FrameLine(frame.start, frame.end, "records", entry.offset, entry.rows)


class _Schemas(dict[int, pa.Schema]):
    """The schemas of a file, and those of the store for versions that it lacks."""

    def __init__(self, known: dict[int, pa.Schema], find: FindSchema) -> None:
        super().__init__(known)
        self._find = find

    def __missing__(self, version: int) -> pa.Schema:
        schema = self._find(version)
        if schema is None:
            raise KeyError(f"schema version {version} is unknown")
        return schema
