"""Feeding the buffer from the writers of this process.

One thread looks after all of them now and then, and sees to the buffer's order in between. Whoever looks something up
has the buffer take first what was appended since, so that whatever was acknowledged is found.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import EpochChanged, FrazilError, PartitionTaken
from frazil.hot.blocks import SMALL_BYTES
from frazil.hot.buffer import Buffer, Kept
from frazil.log.log import Log
from frazil.log.tail import TailView
from frazil.log.wal.entries import Entry
from frazil.log.writer.writer import PartitionWriter

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.02
"""Between two looks, so that many small appends become one block, and looking does not keep them waiting."""
HOUSEKEEPING_SECONDS = 0.5
_TIDY_SECONDS = 0.005
"""How long new records wait at most for the buffer's order."""

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, eq=False)
class Written:
    """A writer of this process, as it was when the buffer began to follow its tail."""

    writer: PartitionWriter
    ids: frozenset[str]
    """Of its segments; a writer that is fenced goes on under another."""

    def lost(self) -> bool:
        return self.writer.tail.writers is not self.ids or isinstance(self.writer.stopped, PartitionTaken)


class Feed:
    """`fill` is called with partitions that begin anew, to be filled with what is older."""

    def __init__(self, log: Log, buffer: Buffer, fill: Callable[[Kept], None]) -> None:
        self._log = log
        self._buffer = buffer
        self._fill = fill
        self._written: dict[Place, tuple[Kept, Written]] = {}
        self._asked: set[Place] = set()
        """Of which something was looked up."""
        self._wake = threading.Event()
        self._stopping = False
        self._problems: dict[Place, FrazilError] = {}
        self._looking = threading.Lock()
        self._tidied = 0.0
        self._thread = threading.Thread(target=self._run, name="frazil-hot-feed", daemon=True)

    def start(self) -> None:
        self._tidied = time.monotonic()
        self._log.changed.listen(self._wake.set)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()
        self._log.changed.ignore(self._wake.set)
        for _, written in self._written.values():
            written.writer.tail.changed.ignore(self._wake.set)

    def problems(self) -> dict[str, FrazilError]:
        return {f"{topic}/{partition}": error for (topic, partition), error in sorted(self._problems.items())}

    def _run(self) -> None:
        self._wake.set()
        while not self._stopping:
            self._wake.wait(HOUSEKEEPING_SECONDS)
            self._wake.clear()
            started = time.monotonic()
            self.look()
            if started - self._tidied > HOUSEKEEPING_SECONDS:
                self._keep_house(started)
            time.sleep(max(PAUSE_SECONDS, time.monotonic() - started))

    def look(self) -> None:
        """Take what is new from all writers, and notice which have come and gone."""
        with self._looking:
            writers = {(writer.topic, writer.partition): writer for writer in self._log.writers}
            for place in self._written.keys() - writers.keys():
                self._attempt(place, None)
            for place, writer in writers.items():
                self._attempt(place, writer)

    def catch_up(self, topic: str) -> None:
        """Take what is new of one topic now."""
        for writer in self._log.writers:
            if writer.topic != topic:
                continue
            place = (writer.topic, writer.partition)
            known = self._written.get(place)
            self._asked.add(place)
            if known is None or known[1].writer is not writer or known[0].held.end != writer.tail.end:
                with self._looking:
                    self._attempt(place, writer)

    def _attempt(self, place: Place, writer: PartitionWriter | None) -> None:
        """One partition that cannot be held must not keep the others from it."""
        try:
            if writer is None:
                self._let_go(place)
            else:
                self._take(place, writer)
        except (FrazilError, pa.ArrowException, ValueError) as caught:
            error = caught if isinstance(caught, FrazilError) else FrazilError(f"cannot be held: {caught}")
            if str(error) != str(self._problems.get(place)):
                logger.exception("cannot buffer", extra={"topic": place[0], "partition": place[1]})
            self._problems[place] = error
        else:
            self._problems.pop(place, None)

    # --- one partition -------------------------------------------------------------------------------------

    def _take(self, place: Place, writer: PartitionWriter) -> None:
        known = self._written.get(place)
        tail = writer.tail
        # What nobody is likely to look up is held once somebody has.
        wanted = writer.options.looked_up or place in self._asked
        if known is not None and known[1].writer is writer and not known[1].lost():
            kept = known[0]
            if not wanted:
                return
            if tail.end == kept.held.end and tail.start == kept.held.sealed:
                return
            view = tail.view(kept.held.end)
            if view.writers is known[1].ids and view.start <= kept.held.end:
                self._add(kept, known[1], view)
                return
        elif known is not None and known[1].writer is not writer:
            self._let_go(place)
        if isinstance(writer.stopped, PartitionTaken):
            self._let_go(place)
            return
        if wanted:
            self._begin(place, writer)
        else:
            self._claim(place, Written(writer, tail.writers))

    def _claim(self, place: Place, written: Written) -> Kept:
        """Nobody else feeds it from now on."""
        kept = self._buffer.keep(*place)
        self._buffer.feed(kept, written)
        self._written[place] = kept, written
        return kept

    def _begin(self, place: Place, writer: PartitionWriter) -> None:
        """Follow a tail from its start, joined with what is held already if that ends there."""
        if place not in self._written and writer.options.looked_up:
            # Of what nobody is likely to look up, housekeeping takes what is new.
            writer.tail.changed.listen(self._wake.set)
        view = writer.tail.view()
        kept = self._buffer.keep(*place)
        # Of what was held only this much is known to be sealed; the rest may not have become part of the log.
        self._buffer.truncate(kept, min(kept.held.sealed, view.start))
        written = Written(writer, view.writers)
        self._claim(place, written)
        self._buffer.truncate(kept, view.start)
        if kept.held.end != view.start or not _same_life(kept, view):
            self._buffer.restart(kept, view.start, by=written)
            if writer.options.looked_up:
                self._fill(kept)
        self._add(kept, written, view)

    def _add(self, kept: Kept, written: Written, view: TailView) -> None:
        borrowed = written.writer.options.ack == "local"
        self._buffer.place(kept, view.epochs.current, by=written)
        for entries in _gathered([entry for entry in view.entries if entry.offset >= kept.held.end]):
            batch = _joined(entries)
            alone = len(entries) == 1
            self._buffer.append(
                kept,
                entries[0].offset,
                batch,
                entries[-1].time_ms,
                nbytes=entries[0].nbytes if alone else None,
                borrowed=borrowed and alone,
                by=written,
            )
        if view.start != kept.held.sealed:
            self._seal(kept, written, view.start)

    def _seal(self, kept: Kept, written: Written, sealed: int) -> None:
        self._buffer.seal(kept, sealed)
        if not written.writer.options.looked_up:
            self._buffer.drop_sealed(kept)

    def _let_go(self, place: Place) -> None:
        """The writer is gone. What its WAL has stays part of the log; what only memory had does not."""
        found = self._written.pop(place, None)
        if found is None:
            return
        kept, written = found
        written.writer.tail.changed.ignore(self._wake.set)
        if not written.lost():
            self._seal(kept, written, written.writer.tail.start)
        if written.lost() or written.writer.options.ack == "object":
            self._buffer.truncate(kept, kept.held.sealed)
        self._buffer.feed(kept, None)

    # --- order ---------------------------------------------------------------------------------------------

    def _keep_house(self, now: float) -> None:
        self._buffer.expire(self._log.world.clock.now_ms())
        for kept in self._buffer.all():
            while self._buffer.tidy(kept):
                if time.monotonic() - now > _TIDY_SECONDS:
                    return
        self._tidied = now


def _same_life(kept: Kept, view: TailView) -> bool:
    """Whether what is held is what the log has before the tail."""
    if kept.epoch is None:
        return False
    try:
        view.epochs.check(kept.epoch, kept.held.end, kept.topic)
    except EpochChanged:
        return False
    return True


def _gathered(entries: list[Entry]) -> list[list[Entry]]:
    """Small neighbours of one schema together, others each for itself."""
    groups: list[list[Entry]] = []
    size = 0
    for entry in entries:
        small = entry.nbytes < SMALL_BYTES
        if groups and small and 0 < size < SMALL_BYTES and entry.schema_version == groups[-1][-1].schema_version:
            groups[-1].append(entry)
            size += entry.nbytes
        else:
            groups.append([entry])
            size = entry.nbytes if small else 0
    return groups


def _joined(entries: list[Entry]) -> pa.RecordBatch:
    batches = [entry.batch() for entry in entries]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
