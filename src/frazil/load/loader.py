"""Appends files to a topic: first finds the schema of all of them, then appends their records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from frazil.config.sections.section import MIB
from frazil.errors import ArrowConversion, FrazilError, LogFull, SchemaMismatch
from frazil.formats import kafka
from frazil.formats.json.type_inference import known_columns
from frazil.formats.kafka import is_kafka
from frazil.load import once
from frazil.load.columnar import open_columnar
from frazil.load.columnar import read_batches as columnar_pieces
from frazil.load.inputs import Input, InputBatch
from frazil.load.json_lines import JsonLines
from frazil.load.progress import Unwatched, Watcher
from frazil.log import layout
from frazil.log.log import Log
from frazil.log.schema.columns import check_columns
from frazil.log.schema.schema import evolve, plain
from frazil.log.writer.group import Ack
from frazil.log.writer.writer import PartitionWriter, Pending

IN_FLIGHT = 4
"""The number of appends that may wait for their acknowledgement at once; with `ack: object` each takes a while."""


@dataclass
class FileLoaded:
    file: str
    rows: int = 0
    bad_lines: int = 0
    first_bad: str | None = None
    already_stored: int = 0
    """The lines (JSON) or rows of the file that an earlier load with `--once` had appended."""


@dataclass
class Loaded:
    """Counts what a load has done so far. It is right at any moment, also when the load fails."""

    topic: str
    partition: int | None = None
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    first_offset: int | None = None
    end_offset: int | None = None
    sealed_end: int | None = None
    not_sealed_because: str | None = None
    files: list[FileLoaded] = field(default_factory=list)

    def acknowledged(self, ack: Ack) -> None:
        if ack.duplicate:
            return
        self.rows += ack.rows
        self.first_offset = ack.offset if self.first_offset is None else self.first_offset
        self.end_offset = ack.offset + ack.rows


class Loader:
    """Loads some inputs into one topic. It seals at the end, but leaves closing the log to its owner."""

    def __init__(
        self,
        log: Log,
        topic: str,
        inputs: Sequence[Input],
        *,
        schema: pa.Schema | None = None,
        skip_bad: bool = False,
        remember: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self.done = Loaded(layout.check_topic(topic))
        self._log = log
        self._topic = topic
        self._given = plain(schema) if schema is not None else None
        self._remember = remember
        self._watcher = watcher or Unwatched()
        self._limit = log.config.log.max_append_mb * MIB
        self._most_columns = log.config.log.max_columns
        self._sources = [
            (
                source,
                JsonLines(source, self._limit, self._most_columns, skip_bad=skip_bad)
                if source.format == "jsonl"
                else None,
            )
            for source in inputs
        ]
        self._writer: PartitionWriter | None = None
        self._waiting: deque[tuple[Pending, FileLoaded]] = deque()

    def run(self) -> Loaded:
        started = time.monotonic()
        try:
            with ExitStack() as stack:
                if self._remember:
                    stack.enter_context(once.only_load(self._log, self._topic))
                self._load(self._schema())
        finally:
            with self._watcher.uninterrupted():
                self._settle(0)
                self._seal()
            self.done.seconds = time.monotonic() - started
        return self.done

    # --- the schema ----------------------------------------------------------------------------------------

    def _schema(self) -> pa.Schema:
        """Returns the schema of all inputs together, checked against the topic before anything is appended."""
        latest = self._log.schemas(self._topic).latest()
        if latest and is_kafka(latest.schema):
            raise SchemaMismatch(
                f"Topic {self._topic!r} comes from Kafka: produce records to it there, or load into another topic."
            )
        schema = latest.schema if latest else pa.schema([])
        if self._given is not None:
            given = evolve(schema, self._given, self._topic) if latest else self._given
            self._check(given, schema, "--schema")
            return given
        for source, lines in self._sources:
            if lines is None:
                with open_columnar(source) as file:
                    schema = self._join(schema, file.schema, source)
        for source, lines in self._sources:
            if lines and source.path:
                found = lines.learn(schema, partial(self._watcher.checking, source))
                schema = self._join(schema, found, source)
        return schema

    def _join(self, schema: pa.Schema, found: pa.Schema, source: Input) -> pa.Schema:
        known, unknown = known_columns(found)
        self._note_unknown(source, unknown)
        if not len(known):
            return schema
        try:
            joined = evolve(schema, plain(known), self._topic) if len(schema) else plain(known)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{source.name}: {error}") from error
        self._check(joined, schema, source.name)
        return joined

    def _check(self, wanted: pa.Schema, present: pa.Schema, where: str) -> None:
        """Raises `SchemaMismatch` for columns that the topic may not have. `where` names what brings them."""
        if wanted.equals(present):
            return
        if is_kafka(wanted):
            raise SchemaMismatch(
                f"{where}: the columns {kafka.VALUE!r} and {kafka.OFFSET!r} mark topics that come from Kafka. Rename "
                f"one of them."
            )
        try:
            check_columns(wanted, self._most_columns, present)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{where}: {error}") from error

    def _note_unknown(self, source: Input, names: Sequence[str]) -> None:
        if names:
            self._watcher.note(
                f"{source.name}: nothing tells the type of {', '.join(map(repr, sorted(names)))} (only nulls, empty "
                f"lists or empty objects), so it is left out; --schema can say it."
            )

    # --- the records ---------------------------------------------------------------------------------------

    def _load(self, schema: pa.Schema) -> None:
        earlier = once.EarlierLoads(self._log, self._topic) if self._remember else None
        for source, lines in self._sources:
            loaded = FileLoaded(source.name)
            self.done.files.append(loaded)
            digest = source.digest() if earlier else None
            if earlier and digest:
                self._settle(0)
                here = self._writer.feeders if self._writer else None
                loaded.already_stored = earlier.stored_up_to(digest, here)
            for batch in self._batches(source, lines, schema, loaded.already_stored):
                with self._watcher.uninterrupted():
                    self._append(batch, digest, loaded)
                self._watcher.loading(source, batch.read, self.done.rows)
            if lines:
                loaded.bad_lines, loaded.first_bad = lines.bad, lines.first_bad
                self._note_unknown(source, sorted(lines.unknown))

    def _batches(self, source: Input, lines: JsonLines | None, schema: pa.Schema, skip: int) -> Iterator[InputBatch]:
        if lines:
            if self._given is not None:
                return lines.batches(self._given, "error", skip)
            if source.path is None:
                return lines.stream(schema)
            return lines.batches(schema, "ignore", skip)
        return columnar_pieces(source, self._limit, skip, lambda batch, row: self._fit(source, batch, row))

    def _fit(self, source: Input, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Returns a batch of a Parquet or Arrow file with the columns that are stored, in their types."""
        wanted = self._given if self._given is not None else known_columns(batch.schema)[0]
        if self._given is not None and (extra := sorted(set(batch.schema.names) - set(wanted.names))):
            raise SchemaMismatch(f"{source.name}: the schema given has no column {', '.join(map(repr, extra))}.")
        there = set(batch.schema.names)
        present = [field for field in wanted if field.name in there]
        try:
            columns = [batch.column(field.name).cast(field.type) for field in present]
            return pa.RecordBatch.from_arrays(columns, schema=pa.schema(present))
        except pa.ArrowInvalid as error:
            rows = f"rows {row + 1} to {row + batch.num_rows}"
            raise ArrowConversion(f"{source.name}, {rows}: {str(error).rstrip('.')}.") from error

    def _append(self, loading: InputBatch, digest: str | None, loaded: FileLoaded) -> None:
        if not len(loading.batch.schema):
            raise SchemaMismatch(f"{loaded.file}: its records have no columns that could be stored.")
        if self._writer is None:
            self._writer = self._log.writer(self._topic, loading.batch.schema)
            self.done.partition = self._writer.partition
        origin = once.origin(digest, loading.position) if digest else None
        while True:
            sealed = self._writer.sealed_end
            try:
                self._waiting.append((self._writer.submit(loading.batch, origin), loaded))
                break
            except LogFull:
                # A slow store is waited for as long as it makes progress.
                if self._writer.sealed_end == sealed:
                    raise
        self.done.bytes += loading.batch.nbytes
        self._settle(IN_FLIGHT)

    def _settle(self, most: int) -> None:
        """Handles finished appends, and waits until at most `most` are unfinished."""
        failed: FrazilError | None = None
        while self._waiting and (len(self._waiting) > most or self._waiting[0][0].done()):
            pending, loaded = self._waiting.popleft()
            try:
                ack = pending.result()
            except FrazilError as error:
                failed = failed or error
                continue
            self.done.acknowledged(ack)
            loaded.rows += 0 if ack.duplicate else ack.rows
        if failed:
            raise failed

    def _seal(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.drain()
            self._writer.seal_all()
        except FrazilError as error:
            self.done.not_sealed_because = str(error)
        self.done.sealed_end = self._writer.sealed_end
