"""Describes a partition, on this machine and in the store, as plain data. It only reads, also beside a writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from frazil.log import layout
from frazil.log.check.survey import UNREADABLE, FileSurvey, FindSchema, WalSurvey, is_written, survey
from frazil.log.claims import owner
from frazil.log.epochs import Epochs
from frazil.log.log import Log
from frazil.log.segments.index import SegmentIndex


@dataclass(frozen=True)
class SegmentInfo:
    key: str
    first_offset: int
    end_offset: int | None
    """It is None when the segment cannot be read."""
    bytes: int
    error: str | None = None


@dataclass(frozen=True)
class WalFileInfo:
    file: str
    first_offset: int | None
    end_offset: int | None
    bytes: int
    frames: list[dict[str, Any]]
    state: str
    """The state is `clean`, `torn at byte …`, `damaged at byte …`, or why a newer version is needed."""


@dataclass(frozen=True)
class PartitionInfo:
    topic: str
    partition: int
    owner: str | None
    written_now: bool
    epoch: str | None
    epochs: list[tuple[str, int]]
    low_mark: int
    first_offset: int
    sealed_end: int | None
    next_offset: int | None
    segments: list[SegmentInfo]
    wal_files: list[WalFileInfo]
    positions: dict[str, int]
    schema_versions: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int | None:
        return None if self.next_offset is None else self.next_offset - self.first_offset

    @property
    def segment_bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    @property
    def wal_bytes(self) -> int:
        return sum(file.bytes for file in self.wal_files)


def show_partition(log: Log, topic: str, partition: int, *, every_footer: bool = False) -> PartitionInfo:
    """Read the WAL first, then the segments: what leaves the WAL meanwhile is in the segments.

    Unless `every_footer` is read, each segment but the newest is taken to end where the next one starts.
    """
    directory = layout.wal_directory(log.config.data_dir, topic, partition)
    written = directory.is_dir() and is_written(directory)
    wal = survey(directory, find_schema(log, topic))
    index = SegmentIndex(log.store, topic, partition)
    index.refresh()
    segments = _segments(index, topic, partition, every_footer)
    sealed_end = segments[-1].end_offset if segments else index.low
    epochs = _epochs(wal, index)
    ends = [end for end in (sealed_end, _wal_end(wal)) if end is not None]
    start = index.start if index.firsts else wal.headers[0].first_offset if wal.headers else index.low
    return PartitionInfo(
        topic=topic,
        partition=partition,
        owner=owner(log.store, topic, partition),
        written_now=written,
        epoch=epochs.current if epochs else None,
        epochs=list(epochs.history) if epochs else [],
        low_mark=index.low,
        first_offset=start,
        sealed_end=sealed_end,
        next_offset=max(ends) if ends else None,
        segments=segments,
        wal_files=[_file(file, newest=file is wal.files[-1], written=written) for file in wal.files],
        positions=_positions(wal, index),
        schema_versions=sorted({found.entry.schema_version for found in wal.records}),
    )


def find_schema(log: Log, topic: str) -> FindSchema:
    """Return a function that finds a version of a topic's schema, or None if it does not exist."""

    def find(version: int) -> pa.Schema | None:
        try:
            return log.schemas(topic).get(version)
        except KeyError:
            return None

    return find


def _segments(index: SegmentIndex, topic: str, partition: int, every_footer: bool) -> list[SegmentInfo]:
    shown = []
    firsts = index.firsts
    for first, following in zip_longest(firsts, firsts[1:]):
        key = layout.segment_key(topic, partition, first)
        end, error = following, None
        if every_footer or following is None:
            try:
                end = index.footer(first).end
            except UNREADABLE as caught:
                end, error = None, str(caught)
        shown.append(SegmentInfo(key, first, end, index.size(first), error))
    return shown


def _wal_end(wal: WalSurvey) -> int | None:
    """Return the offset up to which readers may go: frames above the watermark are not acknowledged yet."""
    ends = [file.end for file in wal.files if file.end is not None]
    if not ends:
        return None
    return min(max(ends), wal.acknowledged) if wal.acknowledged else max(ends)


def _epochs(wal: WalSurvey, index: SegmentIndex) -> Epochs | None:
    if wal.headers:
        return wal.headers[-1].epochs
    newest = _newest(index)
    return newest.epochs if newest else None


def _newest(index: SegmentIndex) -> Any:
    try:
        return index.newest()
    except UNREADABLE:
        return None


def _positions(wal: WalSurvey, index: SegmentIndex) -> dict[str, int]:
    """Return how many sources and producers are remembered, by the newest header or segment."""
    newest = _newest(index)
    known = wal.headers[-1].positions.feeders if wal.headers else newest.positions if newest else None
    if known is None:
        return {"sources": 0, "producers": 0}
    return {"sources": len(known["sources"]), "producers": len(known["producers"])}


def _file(file: FileSurvey, *, newest: bool, written: bool) -> WalFileInfo:
    state = "clean"
    if file.newer:
        state = file.newer
    elif file.damages:
        state = f"damaged at byte {file.damages[0].start}"
    elif file.torn and newest and written:
        state = "being written"
    elif file.torn:
        state = f"{'torn' if newest else 'damaged'} at byte {file.torn.start}"
    return WalFileInfo(
        file=str(file.path),
        first_offset=file.header.first_offset if file.header else None,
        end_offset=file.end,
        bytes=file.used,
        frames=[line._asdict() for line in file.frames],
        state=state,
    )
