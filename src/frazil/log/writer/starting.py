"""Finds where a writer goes on, from the segments in the store and the WAL."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from frazil.clock import World
from frazil.config.sections.log import SourcesConfig
from frazil.errors import PartitionTaken, SegmentMissing
from frazil.log.epochs import Epochs
from frazil.log.positions import Positions, StoredPositions
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment
from frazil.log.wal.entries import Entry
from frazil.log.wal.recovery import Recovered

logger = logging.getLogger(__name__)


@dataclass
class Start:
    """The state with which a writer begins."""

    writer: str
    former_writers: tuple[str, ...]
    epochs: Epochs
    sealed_end: int
    sealed_positions: Positions
    entries: list[Entry]
    """The entries that are not sealed yet."""
    chain: int
    same_writer: bool = False
    """The writer keeps the id that its WAL files name."""

    @property
    def next_offset(self) -> int:
        return self.entries[-1].end if self.entries else self.sealed_end


def start_from_store(index: SegmentIndex, world: World, limits: SourcesConfig) -> Start:
    """Go on after the newest segment. Without a WAL nobody was promised anything that is not sealed."""
    newest = index.newest()
    epochs = newest.epochs if newest else Epochs(((world.new_id(), index.low),))
    return _fresh(index, newest, epochs, world, limits)


def start_new_wal(index: SegmentIndex, world: World, limits: SourcesConfig, where: str) -> Start:
    """Begin a new WAL. If there are segments, the newest records were lost with the old one: a new epoch begins."""
    newest = index.newest()
    if newest:
        epochs = newest.epochs.begin(world.new_id(), newest.end)
        logger.warning(
            "no WAL for a partition that has segments: a new epoch begins",
            extra={"partition": where, "offset": newest.end, "epoch": epochs.current},
        )
    else:
        epochs = Epochs(((world.new_id(), index.low),))
    return _fresh(index, newest, epochs, world, limits)


def _fresh(index: SegmentIndex, newest: Segment | None, epochs: Epochs, world: World, limits: SourcesConfig) -> Start:
    return Start(
        writer=world.new_id(),
        former_writers=(),
        epochs=epochs,
        sealed_end=newest.end if newest else index.low,
        sealed_positions=(
            Positions.from_stored(StoredPositions.from_json(newest.positions), limits)
            if newest
            else Positions(limits)
        ),
        entries=[],
        chain=newest.chain if newest else 0,
    )


def start_from_wal(
    recovered: Recovered, index: SegmentIndex, world: World, limits: SourcesConfig, where: str
) -> Start:
    """Join the WAL with the segments it was sealed into, after making sure that they are its own."""
    newest = index.newest()
    sealed_end = newest.end if newest else index.low
    _check_same_log(recovered, newest, sealed_end, where)
    header = recovered.header
    writer, former, epochs = header.writer, header.former_writers, header.epochs
    if recovered.lost_unsynced:
        writer, former = world.new_id(), (*former, writer)
        epochs = epochs.begin(world.new_id(), sealed_end)
        logger.warning(
            "the machine was restarted before the WAL was synced: a new epoch begins",
            extra={"partition": where, "offset": sealed_end, "end": recovered.end, "epoch": epochs.current},
        )
    positions = Positions.from_stored(recovered.files[0].header.positions, limits)
    for entry in recovered.entries:
        if entry.end <= sealed_end:
            positions.apply(entry.appends, entry.time_ms)
    return Start(
        writer=writer,
        former_writers=former,
        epochs=epochs,
        sealed_end=sealed_end,
        sealed_positions=positions,
        entries=[entry for entry in recovered.entries if entry.end > sealed_end],
        chain=recovered.chain,
        same_writer=not recovered.lost_unsynced,
    )


def _check_same_log(recovered: Recovered, newest: Segment | None, sealed_end: int, where: str) -> None:
    header = recovered.header
    if sealed_end < recovered.start:
        raise SegmentMissing(
            f"{where}: the WAL begins at offset {recovered.start}, but the store has segments up to {sealed_end} "
            f"only. Check that `store` points to the right place; `frazil log repair` saves the WAL's records."
        )
    if newest is None:
        return
    taken = PartitionTaken(
        f"{where}: the store has records up to offset {newest.end} by writer {newest.writer}, which this WAL (writer "
        f"{header.writer}, offsets {recovered.start} to {recovered.end}) does not have. Another writer owns the "
        f"partition; `frazil log repair` appends this WAL's records to a new one."
    )
    ours = newest.writer in (header.writer, *header.former_writers)
    if not ours and newest.end != header.epochs.current_start:
        raise taken
    chain = _chain_at(recovered, newest.end)
    if chain != newest.chain:
        raise taken


def _chain_at(recovered: Recovered, offset: int) -> int | None:
    """Return the chain of the WAL at an offset where a frame ends."""
    if offset == recovered.start:
        return recovered.files[0].header.chain
    return next((entry.chain for entry in recovered.entries if entry.end == offset), None)
