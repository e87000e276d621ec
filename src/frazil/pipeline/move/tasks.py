"""The work of Spark's tasks: they read records of the log and write data files of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from frazil.errors import DeadLetterMissing, FrazilError
from frazil.failpoints import failpoint
from frazil.formats.decoding import Decoder
from frazil.lake.commit.attempts import attempt_folder
from frazil.lake.commit.ranges import Range
from frazil.lake.evolution import must_change_for
from frazil.lake.mapping.misfits import Misfits, dead_letter_batch, without_offsets
from frazil.lake.tables.slim_metadata import without_snapshots
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET
from frazil.pipeline.move.task_reports import TaskReport
from frazil.scan.decode import DecodingRules, RowDecoder
from frazil.scan.log_location import LogLocation


@dataclass(frozen=True)
class TargetTable:
    """The table that a task writes to, without its history, so that it can be sent to tasks."""

    metadata_json: str
    properties: dict[str, str]
    """The properties of its file IO."""
    attempt: str

    @classmethod
    def of(cls, table: Table, attempt: str) -> TargetTable:
        return cls(without_snapshots(table.metadata).model_dump_json(), dict(table.io.properties), attempt)

    @cached_property
    def metadata(self) -> TableMetadata:
        return TableMetadataUtil.parse_raw(self.metadata_json)

    def writer(self, task: int) -> DataFileWriter:
        metadata = self.metadata
        folder = attempt_folder(metadata.location, self.attempt)
        return DataFileWriter(self.io, metadata, folder, task)

    @property
    def io(self) -> FileIO:
        return load_file_io(self.properties, self.metadata.location)


@dataclass(frozen=True)
class MoveJob:
    """Everything that a task needs to move its ranges."""

    place: LogLocation
    target: TargetTable
    schema_version: int
    """The schema version of the topic."""
    now_ms: int
    needed: dict[int, int]
    """This has, by partition, the first offset that the table needs. A partition that is not here is not to be
    written: Spark gives tasks the whole batch, and somebody else may have moved all of a partition since it was
    planned."""
    decoder: Decoder | None = None
    """The decoder that makes rows of records. It is None if the records are rows."""
    dead_letters: TargetTable | None = None
    """The dead-letter table for rows that do not fit. Without it they are only counted."""
    decided: dict[int, int] = field(default_factory=dict)
    """The offsets below which the dead-letter table has decided which rows fit."""
    excluded: dict[int, list[int]] = field(default_factory=dict)
    """The offsets below `decided` whose rows are in the dead-letter table."""


def move_ranges(job: MoveJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a task: it gets ranges and yields a report."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    ranges = [Range(**row) for batch in batches for row in batch.to_pylist()]
    # The id is unique within the application, so that a task that is tried again writes other files.
    yield move(job, context.taskAttemptId(), ranges)


def move(job: MoveJob, task: int, ranges: list[Range]) -> pa.RecordBatch:
    """Writes the files of one task and returns its report."""
    report = TaskReport(task)
    if ranges:
        try:
            _TaskRun(job, report).run(ranges)
        except FrazilError as error:
            report.failed(error)
    return report.batch()


class _TaskRun:
    def __init__(self, job: MoveJob, report: TaskReport) -> None:
        self._job = job
        self._report = report
        metadata = job.target.metadata
        self._rows = RowDecoder(
            DecodingRules.of(metadata, job.decoder), partial(must_change_for, metadata) if job.decoder else None
        )
        self._wanted: dict[pa.Schema, None] = {}
        self._files = job.target.writer(report.task)
        self._dead = job.dead_letters.writer(report.task) if job.dead_letters else None

    def run(self, ranges: list[Range]) -> None:
        with self._files, self._dead or nullcontext():
            for each in ranges:
                self._range(each)
            failpoint("task.before-close")
            if self._wanted:
                self._give_up()
                return
            for file in self._files.close():
                self._report.file(file)
            for file in self._dead.close() if self._dead else ():
                self._report.dead_letters(file)
        failpoint("task.files-written")

    def _give_up(self) -> None:
        """Removes the files and reports what the table lacks. The batch is written again when the table has it."""
        self._files.abort()
        if self._dead is not None:
            self._dead.abort()
        for schema in self._wanted:
            self._report.wants(schema)

    def _range(self, moved: Range) -> None:
        needed = self._job.needed.get(moved.partition)
        if needed is None or needed >= moved.end:
            return
        start = max(moved.start, needed)
        failpoint("task.before-read")
        gone = pa.array(self._job.excluded.get(moved.partition, ()), pa.int64())
        rows = 0
        reader = self._job.place.reader(moved.partition)
        for records in reader.read(start, moved.end, dictionaries=self._job.decoder is None):
            made = self._rows.decode(records.batch, moved.partition, records.offset)
            rows += records.batch.num_rows
            self._wanted |= dict.fromkeys(made.wanted)
            if self._wanted:
                # Files written now would be removed again. The rest is decoded only to find more missing columns.
                continue
            self._files.write(without_offsets(made.batch, gone))
            if made.misfits:
                self._misfits(made.misfits, moved.partition, gone)
        failpoint("task.after-read")
        self._report.range(moved.partition, moved.end, moved.epoch, rows)

    def _misfits(self, misfits: Misfits, partition: int, gone: pa.Array) -> None:
        fresh = without_offsets(misfits.rows, gone)
        if not len(fresh):
            return
        decided = self._job.decided.get(partition, 0)
        offset, error = fresh[OFFSET][0].as_py(), fresh["error"][0].as_py()
        if offset < decided:
            raise DeadLetterMissing(
                f"{self._job.place.topic}/{partition}: the record at offset {offset} cannot become a row "
                f"({error}), but the dead-letter table, which has decided up to {decided}, took it as one. "
                f"Something changed between two tries: the table's schema, or what decodes. `frazil topics resume "
                f"{self._job.place.topic} --recreate --table NAME`, with the name of the dead-letter table, puts "
                f"that aside and decides again."
            )
        if self._dead is None:
            self._report.misfits(len(fresh), error)
        else:
            job = self._job
            self._dead.write(
                dead_letter_batch(Misfits(fresh), job.place.topic, partition, job.schema_version, job.now_ms)
            )
