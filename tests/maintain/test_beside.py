"""Tests a mover that takes no locks, a reader and all maintenance at once on one table."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from frazil.config.sections.maintenance import CompactionConfig, ExpiryConfig, ManifestsConfig, OrphansConfig
from frazil.lake.commit.offsets import check_not_rolled_back, snapshot_offsets
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.expiry import Expiry
from frazil.maintain.manifests import ManifestRewrite
from frazil.maintain.operations import Operation, run_operation
from frazil.maintain.orphans import OrphanRemoval
from tests.lake.commit.commits import NAME, make_lake, make_table, read_rows, span
from tests.maintain.support import EVENTS, SparkFor, maintenance_context, move


def run(folder: Path, spark_for: SparkFor, seed: int, batches: int) -> None:
    """Every row is in the table once at any time, and maintenance never fails: at most it waits."""
    lake = make_lake(folder)
    make_table(lake, {0: 0})
    rng = random.Random(seed)
    ended = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        mine = make_lake(folder)
        for _ in range(batches):
            move(mine, 1, rng.randint(1, 20))
        ended.set()

    def read() -> None:
        mine = make_lake(folder)
        while not ended.is_set():
            rows = read_rows(mine)
            assert rows == span(0, 0, len(rows))

    def watched(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - the test tells
            failures.append(error)
            ended.set()

    operations: list[Operation] = [
        Compaction(CompactionConfig(min_input_files=2)),
        ManifestRewrite(ManifestsConfig(min_input_manifests=2)),
        Expiry(ExpiryConfig(max_age_hours=0, keep_last=1, max_snapshots=1)),
        OrphanRemoval(OrphansConfig()),
    ]
    context = maintenance_context(lake, spark=spark_for(lake.config))
    threads = [threading.Thread(target=watched, args=(task,)) for task in (write, read)]
    reports = []
    for thread in threads:
        thread.start()
    try:
        while not ended.is_set():
            reports += [run_operation(context, operation, EVENTS) for operation in operations]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failures
    reports += [run_operation(context, operation, EVENTS) for operation in operations]
    assert [report for report in reports if report.outcome not in {"done", "nothing", "later"}] == []
    assert {"compact", "expire"} <= {report.operation for report in reports if report.outcome == "done"}
    table = lake.load(NAME)
    check_not_rolled_back(table)
    end = snapshot_offsets(table)
    assert end is not None
    assert read_rows(lake) == span(0, 0, end[0])
    seen = pl.scan_iceberg(table).select(PARTITION, OFFSET).collect()
    assert seen.height == seen.n_unique() == end[0]


def test_all_maintenance_beside_a_writer_and_a_reader(tmp_path: Path, spark_for: SparkFor, seed: int) -> None:
    run(tmp_path, spark_for, seed, 20)


@pytest.mark.soak
def test_much_maintenance_beside_a_writer_and_a_reader(tmp_path: Path, spark_for: SparkFor, seed: int) -> None:
    run(tmp_path, spark_for, seed, 800)
