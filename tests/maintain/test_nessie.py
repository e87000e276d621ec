"""Tests maintenance on a REST catalog that collects its own garbage, with tables on S3."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

from frazil.config.sections.maintenance import CompactionConfig, ExpiryConfig, ManifestsConfig, OrphansConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.tables.tables import base_identifier
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.expiry import Expiry
from frazil.maintain.maintained_tables import find_maintained_tables
from frazil.maintain.manifests import ManifestRewrite
from frazil.maintain.operations import run_operation
from frazil.maintain.orphans import OrphanRemoval
from tests.lake.commit.commits import read_rows, span, write_attempt
from tests.lake.support import make_base_table, nessie_config
from tests.log.support import ManualClock
from tests.maintain.support import SparkFor, maintenance_context, move
from tests.servers.shared import NessieServer, S3Server


def test_tables_are_compacted_and_the_rest_is_left_to_the_catalog(
    tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str, spark_for: SparkFor
) -> None:
    config = nessie_config(tmp_path, nessie, s3_server, namespace)
    lake = Lake(config)
    make_base_table(lake, "events", pa.schema([pa.field("text", pa.string())]))
    name = base_identifier(config, "events")
    move(lake, 6, name=name)
    (target,) = find_maintained_tables(lake, config)
    context = maintenance_context(lake, spark=spark_for(config))
    report = run_operation(context, Compaction(CompactionConfig()), target)
    assert (report.outcome, report.work.before.files, report.work.after.files) == ("done", 6, 1), report.work.note
    assert run_operation(maintenance_context(lake), Compaction(CompactionConfig()), target).outcome == "nothing"
    move(lake, 6, name=name)
    report = run_operation(context, ManifestRewrite(ManifestsConfig(min_input_manifests=4)), target)
    assert report.outcome == "done", report.work.note
    never_committed = write_attempt(lake.load(name), (0, 120, 130))
    clock = ManualClock()
    clock.ms = int(time.time() * 1000) + 100 * 3_600_000
    for operation in (Expiry(ExpiryConfig(keep_last=1, max_snapshots=1)), OrphanRemoval(OrphansConfig())):
        report = run_operation(maintenance_context(lake, clock=clock), operation, target)
        assert report.outcome == "skipped"
        assert "garbage collection" in report.work.note
    # Six were compacted, and older states of the catalog need them. Nobody needs the seventh, but only the catalog
    # knows.
    assert "7 old data files" in report.work.note
    assert lake.load(name).io.new_input(never_committed.files[0].file_path).exists()
    table = lake.load(name)
    check_not_rolled_back(table)
    assert TableState.of(table).offsets == {0: 120}
    assert read_rows(lake, name) == span(0, 0, 120)


def test_names_of_unfinished_tables_go_here_too(
    tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str
) -> None:
    config = nessie_config(tmp_path, nessie, s3_server, namespace)
    lake = Lake(config)
    table = make_base_table(lake, "events", pa.schema([pa.field("text", pa.string())]))
    name = base_identifier(config, "events")
    unfinished = (*name[:-1], "events__new_123")
    lake.catalog.create_table(
        unfinished, table.schema(), location=table.metadata.location, properties={"frazil.topic": "events"}
    )
    clock = ManualClock()
    clock.ms = int(time.time() * 1000) + 25 * 3_600_000
    (target,) = find_maintained_tables(lake, config)
    report = run_operation(maintenance_context(lake, clock=clock), OrphanRemoval(OrphansConfig()), target)
    assert report.outcome == "done"
    assert report.work.note.startswith("1 names of unfinished tables are gone; the catalog does its own")
    assert [tuple(each) for each in lake.catalog.list_tables(name[:-1])] == [name]
    assert read_rows(lake, name) == []
