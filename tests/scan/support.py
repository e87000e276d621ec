"""Has a topic with a log and a table, and moves records from one to the other as a test says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import SecretStr
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.ranges import Range
from frazil.lake.evolution import follow_topic
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.tables.tables import base_identifier
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.segments.trim import trim
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.writer.writer import PartitionWriter
from frazil.scan.scan_tasks import ScanTask
from frazil.scan.topic_rows import TopicRows
from frazil.scan.topic_snapshot import Read
from frazil.store import open_store
from tests.lake.support import TOPIC, local_config, make_base_table
from tests.log.support import SCHEMA, Machine, reader, rows, writer

NOW_MS = 1_800_000_000_000


class Topic:
    """Is a context manager. It keeps writers open, so that their tails exist."""

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA, config: Config | None = None) -> None:
        self.config = config or local_config(folder)
        self.lake = Lake(self.config)
        self.store = open_store(self.config.store, self.config.data_dir)
        self.name = base_identifier(self.config, TOPIC)
        self.schema = schema
        self._machine = Machine.real()
        self._writers: dict[int, PartitionWriter] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Topic:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.lake.close()

    def settings(self) -> Path:
        """Writes the settings to a file."""
        path = self.config.data_dir.parent / "frazil.yaml"
        path.write_text(json.dumps(self.config.model_dump(exclude_unset=True), default=_plain))
        return path

    def writer(self, partition: int = 0) -> PartitionWriter:
        if partition not in self._writers:
            if self.schema is not SCHEMA:
                TopicSchemas(self.store, TOPIC).admit(self.schema)
            opened = writer(self.store, self.config.data_dir, self._machine, partition=partition)
            self._stack.callback(opened.close)
            self._writers[partition] = opened
        return self._writers[partition]

    def append(self, count: int, partition: int = 0) -> None:
        """Appends records that stay in the tail. The id of each is its offset."""
        log = self.writer(partition)
        if count:
            log.append(rows(log.next_offset, count))

    def seal(self, count: int = 0, partition: int = 0) -> None:
        """Seals one segment with what was appended and `count` more records."""
        self.append(count, partition)
        self.writer(partition).seal_all()

    def create(self, *partitions: int) -> Table:
        return make_base_table(self.lake, offsets=dict.fromkeys(partitions or (0,), 0), schema=self.schema)

    def move(self, end: int, partition: int = 0) -> None:
        """Moves records up to `end` to the table, as a mover does."""
        table = self.lake.load(self.name)
        newest = TopicSchemas(self.store, TOPIC).known().schema
        table = follow_topic(self.lake, table, newest)
        state = TableState.of(table)
        start = state.offsets.get(partition, 0)
        if start == end:
            return
        attempt = new_attempt(NOW_MS, random.Random())
        files = DataFileWriter(table.io, table.metadata, attempt_folder(table.metadata.location, attempt), 0)
        epoch = ""
        for records in reader(self.store, None, partition).read(start, end):
            mapped = Mapper(records.batch.schema, table.schema()).map(records.batch, partition, records.offset)
            files.write(mapped.batch)
            epoch = records.epoch
        moved = Attempt(
            id=attempt,
            ranges=(Range(partition, start, end, epoch),),
            files=tuple(files.close()),
            table_uuid=state.uuid,
            schema_id=state.schema_id,
            spec_id=state.spec_id,
        )
        assert isinstance(commit_add_files(self.lake, table, moved, clock=lambda: NOW_MS), Committed)

    def trim(self, needed_from: int, partition: int = 0, *, delete: bool = False) -> None:
        """Marks segments below the offset. `delete` also deletes them, as after the grace time."""
        grace = 0 if delete else 3600
        trim(self.store, TOPIC, partition, needed_from=needed_from, grace_seconds=grace, now_ms=NOW_MS)

    def rows(self, read: Read = "both") -> TopicRows:
        return TopicRows(self.config, TOPIC, read, lake=self.lake)


def _plain(value: Any) -> str:
    return str(value.get_secret_value()) if isinstance(value, SecretStr) else str(value)


def offsets(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, int]]:
    """Returns partition and offset of each row, in the order they came. The id of each row must be its offset."""
    found: list[tuple[int, int]] = []
    for batch in batches:
        assert batch.column("id").equals(batch.column(OFFSET))
        found += zip(batch.column(PARTITION).to_pylist(), batch.column(OFFSET).to_pylist(), strict=True)
    return found


def of_parts(parts: Iterable[ScanTask]) -> list[tuple[int, int]]:
    return sorted(each for part in parts for each in offsets(part.read()))


def span(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]
