"""Helpers for tests of maintenance: a context, tables with small files, and a Spark session only if it is needed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table import Table

from frazil.clock import World
from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.lake.catalog.lake import Identifier, Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.ranges import Range
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import create_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.files import normalized_path
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.report import OperationResult
from frazil.pipeline.txlog.log import TransactionLog
from frazil.store import open_store
from tests.lake.commit.commits import NAME, NOW_MS, write_attempt
from tests.log.support import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# This is the only planner that needs no further package.
os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")

HOUR = 3600.0
EVENTS = MaintainedTable(NAME, NAME[-1], "base")
DAILY = ("frazil", "daily")
DAYS = MaintainedTable(DAILY, DAILY[-1], "base")
DAILY_SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), pa.field("id", pa.int64())])
DAY_MICROS = 86_400_000_000


def no_spark() -> SparkSession:
    raise AssertionError("this must work without Spark")


def maintenance_context(
    lake: Lake,
    *,
    spark: SparkSession | None = None,
    clock: ManualClock | None = None,
    txlog: TransactionLog | None = None,
    config: Config | None = None,
) -> MaintenanceContext:
    world = World(clock, random.Random(7)) if clock is not None else World()
    config = config or lake.config
    return MaintenanceContext(
        config=config,
        lake=lake,
        store=open_store(config.store, config.data_dir),
        world=world,
        spark=no_spark if spark is None else lambda: spark,
        txlog=txlog,
        lock_seconds=5.0,
    )


def settings(folder: Path, **maintenance: Any) -> Config:
    return Config.model_validate({"data_dir": folder, "maintenance": maintenance})


def move(lake: Lake, count: int, rows: int = 10, name: Identifier = NAME) -> Table:
    """Commits this many batches to partition 0, as a mover does."""
    table = lake.load(name)
    for _ in range(count):
        start = TableState.of(table).offsets[0]
        commit_add_files(lake, table, write_attempt(table, (0, start, start + rows)))
        table = lake.load(name)
    return table


def make_daily(lake: Lake, **layout: object) -> Table:
    """Makes a base table whose rows have a time, `ts`, and an `id`. It is partitioned by day by default."""
    return create_table(
        lake,
        DAILY,
        base_table_schema(DAILY_SCHEMA),
        topic=DAILY[-1],
        role="base",
        layout=TableLayoutConfig.model_validate({"partition_by": ["day(ts)"], **layout}),
        offsets={0: 0},
        epochs={0: "one"},
    )


def append_times(lake: Lake, times: Sequence[int | None]) -> None:
    """Commits a batch with these times in microseconds, as a mover does.

    Ids count from 0, or are null with the time.
    """
    table = lake.load(DAILY)
    state = TableState.of(table)
    start = state.offsets[0]
    attempt = new_attempt(NOW_MS, random.Random())
    writer = DataFileWriter(table.io, table.metadata, attempt_folder(table.metadata.location, attempt), 0)
    columns = {
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "id": pa.array([None if time is None else number for number, time in enumerate(times)], pa.int64()),
        PARTITION: pa.array([0] * len(times), pa.int32()),
        OFFSET: pa.array(range(start, start + len(times)), pa.int64()),
    }
    writer.write(pa.RecordBatch.from_pydict(columns))
    moved = Attempt(
        id=attempt,
        ranges=(Range(0, start, start + len(times), "one"),),
        files=tuple(writer.close()),
        table_uuid=state.uuid,
        schema_id=state.schema_id,
        spec_id=state.spec_id,
    )
    outcome = commit_add_files(lake, table, moved, clock=lambda: NOW_MS)
    assert isinstance(outcome, Committed)


def append_days(lake: Lake, days: list[int], rows: int = 5) -> None:
    """Commits one small file for each of these days, in one commit."""
    append_times(lake, [day * DAY_MICROS + 60_000_000 * number for day in days for number in range(rows)])


def on_disk(table: Table) -> set[str]:
    """Returns all files in the table's folder."""
    root = Path(normalized_path(table.metadata.location))
    return {str(path) for path in root.rglob("*") if path.is_file()}


def stray(table: Table, name: str, modified_ms: float) -> Path:
    """Makes a file in the table's folder that nothing refers to."""
    attempt = new_attempt(int(modified_ms), random.Random(name))
    path = Path(normalized_path(table.metadata.location)) / "data" / attempt / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"left behind")
    os.utime(path, (modified_ms / 1000, modified_ms / 1000))
    return path


SparkFor = Callable[[Config], "SparkSession"]


class Probe:
    """An operation that does what the test says."""

    any_version = False

    def __init__(self, name: str, act: Callable[[], OperationResult]) -> None:
        self.name = name
        self._act = act
        self.runs = 0

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        self.runs += 1
        return self._act()
