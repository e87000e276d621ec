"""Tests that orphan removal deletes old unreferenced files, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

from frazil.config.model import Config
from frazil.config.sections.maintenance import ExpiryConfig, OrphansConfig
from frazil.lake.catalog.lake import Lake
from frazil.maintain.expiry import Expiry
from frazil.maintain.files import normalized_path
from frazil.maintain.operations import run_operation
from frazil.maintain.orphans import OrphanRemoval
from frazil.maintain.report import OperationReport
from tests.lake.commit.commits import (
    NAME,
    compact,
    live_files,
    make_lake,
    make_table,
    read_rows,
    span,
    write_attempt,
)
from tests.log.support import ManualClock
from tests.maintain.support import EVENTS, HOUR, maintenance_context, move, on_disk, stray
from tests.servers.shared import S3Server

HOUR_MS = 3_600_000


def remove(lake: Lake, dry_run: bool = False, clock: ManualClock | None = None) -> OperationReport:
    return run_operation(
        maintenance_context(lake, clock=clock), OrphanRemoval(OrphansConfig(older_than_hours=24)), EVENTS, dry_run
    )


def test_an_old_stray_goes_and_a_young_one_stays(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 3)
    now = time.time() * 1000
    old = stray(table, "old.parquet", now - 25 * HOUR_MS)
    young = stray(table, "young.parquet", now - 23 * HOUR_MS)
    planned = remove(lake, dry_run=True)
    assert planned.outcome == "would"
    assert [normalized_path(each) for each in planned.work.items] == [str(old)]
    assert old.exists()
    report = remove(lake)
    assert (report.outcome, report.work.removed.files) == ("done", 1)
    assert report.work.before.files is not None
    assert report.work.after.files == report.work.before.files - 1
    assert not old.exists()
    assert not old.parent.exists()
    assert young.exists()
    assert read_rows(lake) == span(0, 0, 30)
    assert remove(lake).outcome == "nothing"


def test_all_that_any_snapshot_needs_stays_however_old(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 4)
    compact(lake, count=4)
    table = move(lake, 1)
    clock = ManualClock()
    clock.ms = int(time.time() * 1000)
    clock.advance(100 * HOUR)
    before = on_disk(table)
    assert remove(lake, clock=clock).outcome == "nothing"
    assert on_disk(table) == before
    for snapshot in table.metadata.snapshots:
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows >= 0


def test_files_of_an_attempt_that_was_never_committed_go_in_time(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 2)
    attempt = write_attempt(table, (0, 20, 30))
    assert remove(lake).outcome == "nothing"
    clock = ManualClock()
    clock.ms = int(time.time() * 1000)
    clock.advance(25 * HOUR)
    report = remove(lake, clock=clock)
    assert report.work.removed.files == 1
    assert not Path(normalized_path(attempt.files[0].file_path)).exists()
    assert read_rows(lake) == span(0, 0, 20)


def test_nothing_is_removed_while_files_are_missing(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 2)
    old = stray(table, "old.parquet", (time.time() - 100 * HOUR) * 1000)
    gone = next(iter(live_files(table)))
    Path(normalized_path(gone)).unlink()
    report = remove(lake)
    assert report.outcome == "failed"
    assert normalized_path(gone) in report.work.note
    assert old.exists()


def test_tables_that_share_a_folder_are_left_alone(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 1)
    lake.catalog.create_table((*NAME[:-1], "twin"), table.schema(), location=table.metadata.location)
    old = stray(table, "old.parquet", (time.time() - 100 * HOUR) * 1000)
    report = remove(lake)
    assert report.outcome == "skipped"
    assert "frazil.twin" in report.work.note
    assert old.exists()


def test_an_unfinished_table_in_the_same_folder_is_no_obstacle_and_never_a_target(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 1)
    lake.catalog.create_table(
        (*NAME[:-1], "events__new_123"),
        table.schema(),
        location=table.metadata.location,
        properties={"frazil.topic": "events"},
    )
    old = stray(table, "old.parquet", (time.time() - 100 * HOUR) * 1000)
    assert remove(lake).outcome == "done"
    assert not old.exists()
    assert read_rows(lake) == span(0, 0, 10)


def test_expiry_and_orphan_removal_on_s3(tmp_path: Path, s3_server: S3Server, s3_prefix: str) -> None:
    lake = Lake(Config(data_dir=tmp_path, store=s3_server.config(s3_prefix)))
    make_table(lake, {0: 0})
    move(lake, 4)
    compact(lake, count=4)
    table = move(lake, 1)
    never_committed = write_attempt(table, (0, 50, 60))
    clock = ManualClock()
    clock.ms = int(time.time() * 1000) + 1
    operation = Expiry(ExpiryConfig(max_age_hours=0, keep_last=1))
    assert run_operation(maintenance_context(lake, clock=clock), operation, EVENTS).work.after.snapshots == 1
    clock.advance(25 * HOUR)
    # These are four compacted files, their manifests, that of the compaction, and the lists of six snapshots.
    assert run_operation(maintenance_context(lake, clock=clock), operation, EVENTS).work.removed.files == 15
    report = remove(lake, dry_run=True, clock=clock)
    assert report.work.items == (never_committed.files[0].file_path,)
    assert remove(lake, clock=clock).outcome == "done"
    assert remove(lake, clock=clock).outcome == "nothing"
    assert read_rows(lake) == span(0, 0, 50)


def test_names_of_tables_that_nobody_will_finish_are_dropped_and_their_files_stay(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 1)
    for name, owner in (("events__new_1", "events"), ("events__new_2", "somebody"), ("eventsx__new_1", "events")):
        location = str(tmp_path / name)
        properties = {"frazil.topic": owner}
        lake.catalog.create_table((*NAME[:-1], name), table.schema(), location=location, properties=properties)
    left = lake.load((*NAME[:-1], "events__new_1")).metadata_location
    clock = ManualClock()
    clock.ms = int(time.time() * 1000)
    assert remove(lake, clock=clock).outcome == "nothing", "its creator may be at it"
    clock.advance(25 * HOUR)
    planned = remove(lake, dry_run=True, clock=clock)
    assert (planned.outcome, planned.work.items) == ("would", ("the name frazil.events__new_1",))
    report = remove(lake, clock=clock)
    assert (report.outcome, report.work.note) == ("done", "1 names of unfinished tables are gone")
    names = {each[-1] for each in lake.catalog.list_tables(NAME[:-1])}
    assert names == {"events", "events__new_2", "eventsx__new_1"}
    assert Path(normalized_path(left)).exists()
    assert remove(lake, clock=clock).outcome == "nothing"
