"""Salvages the clean records of a WAL that cannot be opened, into a new file.

Records up to the first gap keep their offsets, byte for byte. Records behind a gap follow it without one, under new
offsets. Where a gap was, a new epoch begins, so that readers who saw the old offsets are told.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from frazil.clock import World
from frazil.config.sections.log import SourcesConfig, Sync
from frazil.disk.durable import sync_file
from frazil.disk.files import io_error, write_all
from frazil.log.check.survey import RecordsFrame, WalSurvey
from frazil.log.epochs import Epochs
from frazil.log.positions import Positions, StoredAppend, StoredPositions
from frazil.log.segments.segment import Segment
from frazil.log.wal.entries import Entry, FileHeader, encode_closed, encode_records, extend_chain


class LostRange(NamedTuple):
    """A range of offsets whose records cannot be read any more."""

    start: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Salvage:
    """The contents of the new WAL file."""

    base: int
    chain: int
    kept: list[RecordsFrame]
    moved: list[RecordsFrame]
    """The records that get new offsets, behind the kept ones."""
    lost: list[LostRange]
    writer: str
    former_writers: tuple[str, ...]
    epochs: Epochs
    new_epoch: bool
    positions: StoredPositions

    @property
    def rows(self) -> int:
        return sum(found.entry.rows for found in (*self.kept, *self.moved))

    @property
    def end(self) -> int:
        return self.base + self.rows


def salvage_in_place(
    wal: WalSurvey, newest: Segment | None, low: int, world: World, limits: SourcesConfig
) -> Salvage:
    """Salvage the records for the same partition, from the end of its segments on."""
    base = newest.end if newest else low
    kept, moved, lost = _sort_out([found for found in wal.records if found.entry.end > base], base)
    end = moved[-1].entry.end if moved else kept[-1].entry.end if kept else base
    if wal.acknowledged > end:
        lost.append(LostRange(end, wal.acknowledged))
    header = wal.headers[-1] if wal.headers else None
    epochs = header.epochs if header else newest.epochs if newest else Epochs(((world.new_id(), base),))
    writer = header.writer if header else newest.writer if newest else world.new_id()
    former = header.former_writers if header else ()
    # A reboot may have lost records that were never synced, at the end, where no gap shows it.
    unsure = header is not None and header.boot != world.boot_id() and header.sync != "always"
    unsure = unsure and not wal.files[-1].closed
    if lost or unsure:
        epochs = epochs.begin(world.new_id(), base if unsure else lost[0].start)
        writer, former = world.new_id(), (*former, writer)
    first = wal.files[0].header
    positions = (
        StoredPositions.from_json(newest.positions)
        if newest
        else first.positions
        if first
        else Positions(limits).to_stored()
    )
    chain = newest.chain if newest else 0
    return Salvage(base, chain, kept, moved, lost, writer, former, epochs, bool(lost or unsure), positions)


def salvage_elsewhere(wal: WalSurvey, sealed_end: int, world: World, limits: SourcesConfig) -> Salvage:
    """Salvage all records above `sealed_end` for a new partition."""
    records = [found for found in wal.records if found.entry.end > sealed_end]
    start = records[0].entry.offset if records else 0
    kept, moved, lost = _sort_out(records, start)
    epochs = Epochs(((world.new_id(), 0),))
    return Salvage(0, 0, [], kept + moved, lost, world.new_id(), (), epochs, True, Positions(limits).to_stored())


def _sort_out(
    records: list[RecordsFrame], start: int
) -> tuple[list[RecordsFrame], list[RecordsFrame], list[LostRange]]:
    """Return the records before the first gap, those behind it, and the gaps. Repeated offsets count once."""
    kept: list[RecordsFrame] = []
    moved: list[RecordsFrame] = []
    lost: list[LostRange] = []
    for found in records:
        entry = found.entry
        if entry.offset < start:
            continue
        if entry.offset > start:
            lost.append(LostRange(start, entry.offset))
        (moved if lost else kept).append(found)
        start = entry.end
    return kept, moved, lost


def write(salvage: Salvage, path: Path, sync: Sync, world: World) -> None:
    """Write the salvaged file, complete and on disk."""
    records = [*salvage.kept, *salvage.moved]
    header = FileHeader(
        writer=salvage.writer,
        former_writers=salvage.former_writers,
        epochs=salvage.epochs,
        first_offset=salvage.base,
        chain=salvage.chain,
        sync=sync,
        boot=world.boot_id(),
        created_ms=world.clock.now_ms(),
        schemas={found.entry.schema_version: found.entry.schema for found in records},
        positions=salvage.positions,
    )
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        position = write_all(descriptor, header.encode().parts, 0)
        offset = salvage.base
        for found in salvage.kept:
            position = write_all(descriptor, [found.raw], position)
            offset = found.entry.end
        for found in salvage.moved:
            entry = _at(found.entry, offset)
            position = write_all(descriptor, encode_records(entry, 0).parts, position)
            offset = entry.end
        write_all(descriptor, encode_closed(offset).parts, position)
        sync_file(descriptor)
    except OSError as error:
        raise io_error(error, "Writing", path) from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _at(entry: Entry, offset: int) -> Entry:
    """Return the same records and origins at another offset."""
    shift = offset - entry.offset
    appends = [StoredAppend(append.offset + shift, append.rows, append.origin) for append in entry.appends]
    return entry._replace(offset=offset, appends=appends)


def chain_at(wal: WalSurvey, offset: int) -> int | None:
    """Return the chain at an offset, if all frames from a file's header to there are clean."""
    for file in wal.files:
        if file.header is None:
            continue
        if file.header.first_offset == offset:
            return file.header.chain
        chain = file.header.chain
        flaw = min((damage.start for damage in file.damages), default=file.size)
        for found in file.records:
            if found.frame.start >= flaw:
                break
            chain = extend_chain(chain, found.frame.crc)
            if found.entry.end == offset:
                return chain
    return None
