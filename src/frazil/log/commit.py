"""Turning a group of appends into one stored entry: duplicates out, offsets given, frame written, synced."""

from __future__ import annotations

import threading
from contextlib import suppress

import pyarrow as pa

from frazil.errors import DiskFull, FrazilError, LogBroken, SequenceTooOld
from frazil.log.entries import Entry, FileHeader, encode_records, encode_schema, extend_chain
from frazil.log.group import Ack, Append, Group
from frazil.log.options import WriterOptions
from frazil.log.positions import Origin, Place, Positions, Stored
from frazil.log.starting import Start
from frazil.log.tail import Tail
from frazil.log.topics import TopicSchemas
from frazil.log.wal import Wal
from frazil.log.world import World


class Committer:
    """One commit at a time; `lock` also keeps rotation and sealing apart from commits."""

    def __init__(
        self, start: Start, schemas: TopicSchemas, tail: Tail, wal: Wal | None, options: WriterOptions, world: World
    ) -> None:
        self.lock = threading.Lock()
        self.stopped: FrazilError | None = None
        """Why nothing is committed any more."""
        self._schemas = schemas
        self._tail = tail
        self._wal = wal
        self._options = options
        self._world = world
        self.writer = start.writer
        self._former_writers = start.former_writers
        self._chain = start.chain
        self._next = start.next_offset
        self._positions = start.sealed_positions.copy()
        for entry in start.entries:
            self._positions.apply(entry.appends, entry.time_ms)
        self._file_schemas: set[int] = set()
        self._file_start = self._next
        if wal:
            self._begin_file(wal)
            wal.publish(self._next)

    def is_quick(self, nbytes: int) -> bool:
        """Whether a small commit now takes microseconds: no sync, no new file, nobody else at work."""
        wal = self._wal
        return wal is None or (
            self._options.sync != "always"
            and wal.size + nbytes < self._options.max_file_bytes
            and not self.lock.locked()
        )

    def commit(self, group: Group) -> None:
        with self.lock:
            if self.stopped:
                raise self.stopped
            fresh, outcomes = self._without_duplicates(group.appends)
            if fresh:
                try:
                    self._store(group, fresh)
                except LogBroken as error:
                    self.stopped = error
                    raise
            group.outcomes = outcomes
            group.acked_at = max((o.offset + o.rows for o in outcomes if isinstance(o, Ack)), default=0)

    def _without_duplicates(self, appends: list[Append]) -> tuple[list[Append], list[Ack | FrazilError]]:
        """The appends that are not stored yet, and what each is going to be answered."""
        fresh: list[Append] = []
        outcomes: list[Ack | FrazilError] = []
        seen: dict[Origin, Place] = {}
        offset, epoch, durability = self._next, self._tail.epochs.current, self._options.ack
        for append in appends:
            origin = append.origin
            if origin is not None and (origin.sequence or origin.request):
                try:
                    place = seen.get(origin) or self._positions.find(origin)
                except SequenceTooOld as error:
                    outcomes.append(error)
                    continue
                if place is not None:
                    outcomes.append(Ack(place.offset, place.rows, epoch, durability, duplicate=True))
                    continue
                seen[origin] = Place(offset, append.batch.num_rows)
            rows = append.batch.num_rows
            outcomes.append(Ack(offset, rows, epoch, durability))
            fresh.append(append)
            offset += rows
        return fresh, outcomes

    def _store(self, group: Group, appends: list[Append]) -> None:
        stored: list[Stored] = []
        offset = self._next
        for append in appends:
            if append.origin:
                stored.append(Stored(offset, append.batch.num_rows, append.origin))
            offset += append.batch.num_rows
        batch = appends[0].batch if len(appends) == 1 else pa.concat_batches([a.batch for a in appends])
        version, schema = group.schema
        entry = Entry(
            self._next,
            offset - self._next,
            version,
            schema,
            self._world.clock.now_ms(),
            stored,
            batch.serialize(),
            self._chain,
        )
        if self._wal:
            entry = self._write(self._wal, entry)
        self._positions.apply(stored, entry.time_ms)
        self._chain = entry.chain
        self._next = entry.end
        if self._wal:
            self._wal.publish(self._next)
        self._tail.add(entry)

    def _write(self, wal: Wal, entry: Entry) -> Entry:
        if wal.size >= self._options.max_file_bytes:
            self._begin_file(wal)
        if entry.schema_version not in self._file_schemas:
            wal.append(encode_schema(entry.schema_version, entry.schema))
            self._file_schemas.add(entry.schema_version)
        encoded = encode_records(entry, wal.synced)
        wal.append(encoded)
        if self._options.sync == "always":
            wal.sync()
        return entry._replace(chain=extend_chain(self._chain, encoded.crc))

    def _begin_file(self, wal: Wal) -> None:
        latest = self._schemas.known()
        wal.begin(
            FileHeader(
                writer=self.writer,
                former_writers=self._former_writers,
                epochs=self._tail.epochs,
                first_offset=self._next,
                chain=self._chain,
                sync=self._options.sync,
                boot=self._world.boot_id(),
                created_ms=self._world.clock.now_ms(),
                schemas={latest.version: latest.schema},
                positions=self._positions.to_json(),
            )
        )
        self._file_schemas = {latest.version}
        self._file_start = self._next

    def secure(self, end: int) -> None:
        """Before a segment up to `end` is put: the WAL has it on disk, and its files end there if they can."""
        if self._wal:
            if end == self._next > self._file_start:
                # Sealing is what frees a full disk: it must not need room for a new file.
                with suppress(DiskFull):
                    self._begin_file(self._wal)
            self._wal.sync()

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

    def snapshot(self) -> Positions:
        with self.lock:
            return self._positions.copy()

    def restart(self, start: Start) -> None:
        """Go on from another writer's segment, under a new id."""
        self.writer = start.writer
        self._chain = start.chain
        self._next = start.next_offset
        self._positions = start.sealed_positions.copy()

    def close(self) -> None:
        with self.lock:
            if self._wal:
                self._wal.close(self._next)
                self._wal = None
