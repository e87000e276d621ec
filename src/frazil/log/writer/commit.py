"""Commits a group of appends as one entry: leaves out duplicates, assigns offsets, writes the frame and syncs it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate, repeat

import pyarrow as pa

from frazil.clock import World
from frazil.errors import DiskFull, FrazilError, LogBroken, PartitionFenced, SequenceTooOld, WriteFailed
from frazil.log.forms import pack_appends
from frazil.log.known_requests import AppendLocation
from frazil.log.positions import Feeders, Origin, Sequence, StoredAppend
from frazil.log.tail import Tail
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.wal.directory import Wal
from frazil.log.wal.entries import Entry, FileHeader, encode_records, encode_schema, extend_chain, payload_start
from frazil.log.writer.group import Ack, Group
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.starting import Start
from frazil.log.writer.stats import WriterStats

logger = logging.getLogger(__name__)


class Committer:
    """Commits one group at a time. `lock` also keeps rotation and sealing apart from commits."""

    def __init__(
        self, start: Start, schemas: TopicSchemas, tail: Tail, wal: Wal | None, options: WriterOptions, world: World
    ) -> None:
        self.lock = threading.Lock()
        self.stats = WriterStats()
        self.generation = 0
        """Another writer came first this often. Groups that were queued before are not committed after it."""
        self.stopped: FrazilError | None = None
        """The reason why nothing is committed any more."""
        self._schemas = schemas
        self._tail = tail
        self._wal = wal
        self._options = options
        self._world = world
        self.writer = start.writer
        self._former_writers = start.former_writers
        self._chain = start.chain
        self._next = self._opened_at = start.next_offset
        self._positions = start.sealed_positions.copy()
        for entry in start.entries:
            self._positions.apply(entry.appends, entry.time_ms)
        self._file_schemas: set[int] = set()
        self._file_start = self._next
        if wal:
            # The watermark first: a new file must never end below it.
            wal.publish(self._next)
            try:
                self._begin_file(wal)
            except DiskFull:
                # Sealing what is left is what frees a full disk; the file is begun with the first append.
                if not start.same_writer:
                    raise

    def is_quick(self, nbytes: int) -> bool:
        """Tell whether a small commit now takes microseconds: no sync, no new file, and nobody else is committing."""
        wal = self._wal
        return not self.lock.locked() and (
            wal is None
            or (
                self._options.sync != "always"
                and wal.file.is_open
                and wal.file.filled + nbytes < self._options.max_file_bytes
            )
        )

    def commit(self, group: Group, stored_then: Callable[[Group], None]) -> None:
        """Store a group, then call `stored_then`, before anything else can happen to the partition."""
        with self.lock:
            if self.stopped:
                raise self.stopped.again()
            if group.generation != self.generation:
                raise PartitionFenced("Another writer came first; what was waiting was dropped. Send it again.")
            try:
                fresh, outcomes = self._store_new(group)
            except BaseException as error:
                self._stop_sources(group, error)
                raise
            group.outcomes = outcomes
            group.acked_at = self._next if fresh else _last_end(outcomes)
            self._count(group, fresh)
            stored_then(group)

    def _store_new(self, group: Group) -> tuple[int, list[Ack | FrazilError]]:
        """Store the appends that are not stored yet. Return how many they are, and the outcome of every append."""
        if not group.origins:
            self._store(self._entry(group, _payload(group), group.rows, []))
            return len(group.rows), self._acks(group.rows)
        fresh, stored, outcomes = self._without_duplicates(group)
        if fresh:
            rows = [group.rows[index] for index in fresh]
            self._store(self._entry(group, _payload(group, fresh), rows, stored))
        return len(fresh), outcomes

    def _stop_sources(self, group: Group, error: BaseException) -> None:
        """Stop after a failed append of a source: storing what comes after the gap would lose the records in it."""
        if self.stopped is None and any(origin.source for origin in group.origins.values()):
            self.stopped = WriteFailed(f"An append failed, and none is taken after it: {error}. Open the log again.")

    def _count(self, group: Group, fresh: int) -> None:
        stats = self.stats
        stats.commits += 1
        stats.appends += len(group.rows)
        stats.duplicates += len(group.rows) - fresh
        stats.bytes += group.nbytes
        stats.records = self._next - self._opened_at

    def _acks(self, rows: list[int]) -> list[Ack | FrazilError]:
        """Return the acknowledgements of appends that were just stored."""
        offsets = accumulate(rows, initial=self._next - sum(rows))
        return list(map(Ack, offsets, rows, repeat(self._tail.epochs.current), repeat(self._options.ack)))

    def _without_duplicates(self, group: Group) -> tuple[list[int], list[StoredAppend], list[Ack | FrazilError]]:
        """Return the appends that are not stored yet, their origins, and the outcome of every append."""
        fresh: list[int] = []
        stored: list[StoredAppend] = []
        outcomes: list[Ack | FrazilError] = []
        seen: dict[Sequence | bytes, AppendLocation] = {}
        offset, epoch, durability = self._next, self._tail.epochs.current, self._options.ack
        now = self._world.clock.now_ms()
        for index, rows in enumerate(group.rows):
            origin = group.origins.get(index)
            if origin is not None:
                try:
                    place = _seen(seen, origin) or self._positions.find(origin, now)
                except SequenceTooOld as error:
                    outcomes.append(error)
                    continue
                if place is not None:
                    outcomes.append(Ack(place.offset, place.rows, epoch, durability, duplicate=True))
                    continue
                for name in (origin.sequence, origin.request):
                    if name:
                        seen[name] = AppendLocation(offset, rows)
                stored.append(StoredAppend(offset, rows, origin))
            outcomes.append(Ack(offset, rows, epoch, durability))
            fresh.append(index)
            offset += rows
        return fresh, stored, outcomes

    def _entry(self, group: Group, payload: pa.Buffer, appends: list[int], stored: list[StoredAppend]) -> Entry:
        """Make the entry of some appends of a group, which have so many rows each."""
        now = self._world.clock.now_ms()
        rows = sum(appends)
        weight = group.nbytes * rows // sum(group.rows) if group.form else 0
        return Entry(self._next, rows, *group.schema, now, stored, payload, self._chain, group.form, weight)

    def _store(self, entry: Entry) -> None:
        try:
            if self._wal:
                entry = self._write(self._wal, entry)
            self._positions.apply(entry.appends, entry.time_ms)
            self._chain = entry.chain
            self._next = entry.end
            if self._wal:
                self._wal.publish(self._next)
            self._tail.add(entry)
        except LogBroken as error:
            self.stopped = error
            raise
        except FrazilError:
            raise
        except BaseException:
            # Interrupted anywhere, for example by Ctrl-C, disk and memory may differ.
            self.stopped = LogBroken("The log was interrupted in the middle of a write. Open it again.")
            raise

    def _write(self, wal: Wal, entry: Entry) -> Entry:
        if not wal.file.is_open or wal.file.filled >= self._options.max_file_bytes:
            self._begin_file(wal)
        if entry.schema_version not in self._file_schemas:
            wal.file.append(encode_schema(entry.schema_version, entry.schema).parts)
            self._file_schemas.add(entry.schema_version)
        encoded = encode_records(entry, wal.file.synced)
        start = wal.file.append(encoded.parts)
        if self._options.sync == "always":
            wal.sync()
        chain = extend_chain(self._chain, encoded.crc)
        # The page cache has these bytes now: a second copy would cost memory, and the time to get it.
        mapped = wal.file.mapped(start + payload_start(encoded, entry), entry.payload.size)
        return entry._replace(chain=chain, payload=mapped or entry.payload)

    def _begin_file(self, wal: Wal) -> None:
        latest = self._schemas.known()
        header = FileHeader(
            writer=self.writer,
            former_writers=self._former_writers,
            epochs=self._tail.epochs,
            first_offset=self._next,
            chain=self._chain,
            sync=self._options.sync,
            boot=self._world.boot_id(),
            created_ms=self._world.clock.now_ms(),
            schemas={latest.version: latest.schema},
            positions=self._positions.to_stored(),
        )
        try:
            wal.begin(header)
        except LogBroken as error:
            self.stopped = error
            raise
        self._file_schemas = {latest.version}
        self._file_start = self._next

    def drop_sealed(self, end: int) -> None:
        """Delete the files whose records are all sealed. The current one is ended first, so that it can go too."""
        try:
            self.rotate()
        except FrazilError as error:
            # It is tried again after the next seal. Until then the file stays.
            logger.warning("cannot end a WAL file", extra={"reason": str(error)})
        self.drop_below(end)

    def rotate(self) -> None:
        with self.lock:
            if isinstance(self.stopped, LogBroken):
                # What was written last may be known here and not counted, or the other way round: only the file that
                # has it can tell.
                return
            if self._wal and self._wal.file.is_open and self._next > self._file_start:
                # Sealing is what frees a full disk: it must not need room for a new file.
                with suppress(DiskFull):
                    self._begin_file(self._wal)

    @property
    def unsynced(self) -> int:
        """Bytes written since the last sync."""
        return self._wal.file.unsynced if self._wal else 0

    def drop_below(self, offset: int) -> None:
        if self._wal:
            self._wal.drop_below(offset)

    def sync(self) -> None:
        if wal := self._wal:
            try:
                wal.sync()
            except LogBroken as error:
                self.stopped = error
                raise

    def requests_below(self, end: int) -> bytes:
        """Return the encoded requests that are stored below an offset. The caller has the lock."""
        return self._positions.requests.encode(end)

    def feeders(self) -> Feeders:
        with self.lock:
            return self._positions.feeders.copy()

    def restart(self, start: Start) -> None:
        """Go on after another writer's segment, under a new id."""
        self.writer = start.writer
        self._chain = start.chain
        self.generation += 1
        self._opened_at += start.next_offset - self._next
        self._next = start.next_offset
        self._positions = start.sealed_positions.copy()

    def close(self) -> None:
        with self.lock:
            if self._wal:
                self._wal.close(None if isinstance(self.stopped, LogBroken) else self._next)
                self._wal = None


def _payload(group: Group, fresh: list[int] | None = None) -> pa.Buffer:
    """Return the payload of a group, or of these appends of it."""
    some = fresh is not None and len(fresh) < len(group.rows)
    if group.form:
        return pa.py_buffer(pack_appends([group.appends[index] for index in fresh or ()] if some else group.appends))
    batches = group.batches if not some else _chosen(group, fresh or [])
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return batch.serialize()


def _chosen(group: Group, appends: list[int]) -> list[pa.RecordBatch]:
    """Return the rows of these appends of a group."""
    whole = pa.concat_batches(group.batches)
    starts = list(accumulate(group.rows, initial=0))
    return [whole.slice(starts[index], group.rows[index]) for index in appends]


def _seen(seen: dict[Sequence | bytes, AppendLocation], origin: Origin) -> AppendLocation | None:
    return next((seen[name] for name in (origin.sequence, origin.request) if name and name in seen), None)


def _last_end(outcomes: list[Ack | FrazilError]) -> int:
    return max((o.offset + o.rows for o in outcomes if isinstance(o, Ack)), default=0)
