"""Helpers for tests of commits: tables, attempts, concurrent changes, and an independent reader."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import requests
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ServerError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from frazil.config.model import Config
from frazil.config.sections.lake import LakeConfig, TableLayoutConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.ranges import Range
from frazil.lake.commit.replace import Replacement
from frazil.lake.pyiceberg_internals import write_deletion
from frazil.lake.tables.tables import create_table
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.metadata_updates import commit_updates

NOW_MS = 1_800_000_000_000
NAME = ("frazil", "events")
SCHEMA = Schema(
    NestedField(1, "text", StringType()),
    NestedField(2, PARTITION, IntegerType(), required=True),
    NestedField(3, OFFSET, LongType(), required=True),
)


def make_lake(folder: Path, *, synced: bool = True) -> Lake:
    """Makes a lake on an SQLite catalog and a local warehouse. It is faster without syncing its files."""
    properties = {} if synced else {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    return Lake(Config(data_dir=folder, lake=LakeConfig(properties=properties)))


def make_table(lake: Lake, offsets: Mapping[int, int] | None = None, name: tuple[str, ...] = NAME) -> Table:
    return create_table(
        lake,
        name,
        SCHEMA,
        topic=name[-1],
        role="base",
        layout=TableLayoutConfig(),
        offsets={0: 0, 1: 0} if offsets is None else offsets,
        epochs={},
    )


def rows_of(table: Table, partition: int, start: int, end: int) -> pa.Table:
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    columns = {
        "text": [f"{partition}/{offset}" for offset in range(start, end)],
        PARTITION: [partition] * (end - start),
        OFFSET: list(range(start, end)),
    }
    empty = [None] * (end - start)
    return pa.Table.from_pydict({name: columns.get(name, empty) for name in schema.names}, schema=schema)


def write_file(table: Table, path: str, rows: pa.Table) -> DataFile:
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
    )
    file.spec_id = table.metadata.default_spec_id
    return file


def write_attempt(
    table: Table,
    *ranges: tuple[int, int, int],
    rng: random.Random | None = None,
    now_ms: int = NOW_MS,
    empty: bool = False,
) -> Attempt:
    """Writes data files for ranges `(partition, start, end)`, one each, as a mover would write them."""
    attempt = new_attempt(now_ms, rng or random.Random())
    folder = attempt_folder(table.metadata.location, attempt)
    files = [
        write_file(table, f"{folder}/{task:05d}-00000.parquet", rows_of(table, *each))
        for task, each in enumerate(() if empty else ranges)
    ]
    return Attempt(
        id=attempt,
        ranges=tuple(Range(*each, f"epoch-{each[0]}") for each in ranges),
        files=tuple(files),
        table_uuid=table.metadata.table_uuid,
        schema_id=table.metadata.current_schema_id,
        spec_id=table.metadata.default_spec_id,
        application="local-1",
        tasks=(0, 1),
    )


def read_rows(lake: Lake, name: tuple[str, ...] = NAME) -> list[tuple[int, int]]:
    """Returns all rows `(partition, offset)` of the table, in order, read file by file."""
    table = lake.load(name)
    found: list[tuple[int, int]] = []
    for task in table.scan().plan_files():
        with table.io.new_input(task.file.file_path).open() as stream:
            rows = pq.read_table(pa.BufferReader(stream.read()), columns=[PARTITION, OFFSET])
        assert rows.num_rows == task.file.record_count
        found += zip(rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True)
    return sorted(found)


def span(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


def live_files(table: Table, snapshot_id: int | None = None) -> dict[str, DataFile]:
    """Returns the data files of a snapshot by path, by default of the current one."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id) if snapshot_id else table.current_snapshot()
    assert snapshot is not None
    return {file.file_path: file for each in snapshot.manifests(table.io) for file in _files_of(table.io, each)}


_read: dict[str, list[DataFile]] = {}
"""Caches manifests. They do not change, and reading them repeatedly would be most of the time of a long test."""


def _files_of(io: FileIO, manifest: ManifestFile) -> list[DataFile]:
    path = manifest.manifest_path
    if path not in _read:
        _read[path] = [entry.data_file for entry in manifest.fetch_manifest_entry(io)]
    return _read[path]


def compact(lake: Lake, name: tuple[str, ...] = NAME, count: int = 2) -> bool:
    """Rewrites the `count` smallest files as one. Returns False if there are too few."""
    table = lake.load(name)
    chosen = sorted(live_files(table).values(), key=lambda file: (file.record_count, file.file_path))[:count]
    if len(chosen) < 2:
        return False
    parts = []
    for file in chosen:
        with table.io.new_input(file.file_path).open() as stream:
            parts.append(pq.read_table(pa.BufferReader(stream.read())))
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    whole = pa.concat_tables(parts, promote_options="default").select(schema.names[: len(parts[0].schema.names)])
    path = f"{table.metadata.location}/data/compacted-{uuid.uuid4().hex}.parquet"
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for file in chosen:
            overwrite.delete_data_file(file)
        overwrite.append_data_file(write_file(table, path, whole))
    return True


def write_replacement(
    table: Table, count: int = 2, rng: random.Random | None = None, now_ms: int = NOW_MS
) -> Replacement | None:
    """Writes the rows of the `count` smallest files as one, as compaction does. Returns None if there are too few."""
    chosen = sorted(live_files(table).values(), key=lambda file: (file.record_count, file.file_path))[:count]
    if len(chosen) < 2:
        return None
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    parts = []
    for file in chosen:
        with table.io.new_input(file.file_path).open() as stream:
            parts.append(pq.read_table(pa.BufferReader(stream.read())))
    attempt = new_attempt(now_ms, rng or random.Random())
    whole = pa.concat_tables(parts, promote_options="default").select(schema.names[: len(parts[0].schema.names)])
    path = f"{attempt_folder(table.metadata.location, attempt)}/00000-00000.parquet"
    return Replacement(
        id=attempt,
        inputs=tuple(chosen),
        outputs=(write_file(table, path, whole),),
        deletes={},
        table_uuid=table.metadata.table_uuid,
        schema_id=table.metadata.current_schema_id,
        spec_id=table.metadata.default_spec_id,
    )


def drop_file(lake: Lake, which: int, name: tuple[str, ...] = NAME) -> list[tuple[int, int]]:
    """Drops a file from the table, as retention does, and returns the rows that are gone."""
    table = lake.load(name)
    files = [file for _, file in sorted(live_files(table).items())]
    if not files:
        return []
    file = files[which % len(files)]
    with table.io.new_input(file.file_path).open() as stream:
        rows = pq.read_table(pa.BufferReader(stream.read()), columns=[PARTITION, OFFSET])
    commit_updates(lake, table, write_deletion(table, AlwaysTrue(), [file]))
    return list(zip(rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True))


def expire(lake: Lake, name: tuple[str, ...] = NAME, keep: int = 1) -> None:
    """Removes all but the newest snapshots of main, and deletes files that only the others needed, as Spark does."""
    table = lake.load(name)
    kept: list[int] = []
    at = table.current_snapshot()
    while at is not None and len(kept) < keep:
        kept.append(at.snapshot_id)
        at = None if at.parent_snapshot_id is None else table.metadata.snapshot_by_id(at.parent_snapshot_id)
    gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in kept]
    if not gone:
        return
    before = _reachable(table)
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    for path in before - _reachable(lake.load(name)):
        table.io.delete(path)


def roll_back(lake: Lake, snapshot_id: int, name: tuple[str, ...] = NAME) -> Table:
    lake.load(name).manage_snapshots().set_current_snapshot(snapshot_id).commit()
    return lake.load(name)


def exists(path: str) -> bool:
    return Path(path.removeprefix("file://")).exists()


def _reachable(table: Table) -> set[str]:
    paths = set()
    for snapshot in table.metadata.snapshots:
        paths.add(snapshot.manifest_list)
        paths |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
        paths |= live_files(table, snapshot.snapshot_id).keys()
    return paths


Deliver = Callable[[], CommitTableResponse]
"""A function that makes the real catalog handle a request."""


class FaultyLake(Lake):
    """A lake whose commit requests meet the faults that a test has put into `faults`, one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.faults: list[Fault] = []
        self.late: list[Deliver] = []
        """The requests that are still under way."""
        self.sent = 0

    def _open(self) -> Catalog:
        catalog = super()._open()
        real = catalog.commit_table

        def commit_table(
            table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
        ) -> CommitTableResponse:
            def deliver() -> CommitTableResponse:
                return real(table, requirements, updates)

            self.sent += 1
            return self.faults.pop(0)(self, deliver) if self.faults else deliver()

        catalog.commit_table = commit_table  # type: ignore[method-assign]
        return catalog

    def deliver_late(self) -> bool:
        """Delivers the oldest request that is still under way, and returns whether it was accepted."""
        try:
            self.late.pop(0)()
        except (CommitFailedException, ValueError):
            return False
        return True


Fault = Callable[[FaultyLake, Deliver], CommitTableResponse]


def lost_request(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    raise requests.ConnectionError("connection reset before the request was sent")


def lost_reply(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    deliver()
    raise requests.ReadTimeout("no answer")


def late_request(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    lake.late.append(deliver)
    raise requests.ReadTimeout("no answer yet")


def sent_twice(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    """Acts like a proxy that repeats requests: the answer is that to the second."""
    deliver()
    return deliver()


def copied(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    lake.late.append(deliver)
    return deliver()


def conflict(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    raise CommitFailedException("said so, for no reason")


def failed_server(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    raise CommitStateUnknownException("internal error")


def failed_server_done(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    deliver()
    raise ServerError("internal error")


def between(action: Callable[[], object]) -> Fault:
    """Returns a fault that first lets something else happen."""

    def fault(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
        action()
        return deliver()

    return fault
