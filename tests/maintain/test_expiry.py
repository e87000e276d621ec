"""Tests that expiry removes old snapshots and their files, and nothing that somebody may need."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from frazil.config.sections.maintenance import ExpiryConfig
from frazil.failpoints import VARIABLE
from frazil.lake.commit.offsets import check_not_rolled_back, snapshot_offsets
from frazil.maintain.expiry import expired
from frazil.maintain.files import TableFiles, normalized_path
from frazil.maintain.manifest_reader import ManifestReader
from frazil.maintain.pending_deletions import FOLDER, DeletionCandidates, delete_due, write_note
from frazil.maintain.report import Amounts
from tests.examples import examples
from tests.lake.commit.commits import (
    NAME,
    compact,
    exists,
    make_lake,
    make_table,
    read_rows,
    roll_back,
    span,
)
from tests.maintain.expiring import clock_now, expire
from tests.maintain.support import HOUR, move, on_disk


def strays(table: Table) -> set[str]:
    """Returns files on disk that the table does not refer to, apart from notes."""
    return {path for path in on_disk(table) if FOLDER not in path} - ManifestReader().referenced_files(table)


def test_snapshots_go_at_once_and_their_files_after_the_grace_time(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    compact(lake, count=6)
    move(lake, 1)
    clock = clock_now()
    table = lake.load(NAME)
    report = expire(lake, clock)
    assert report.outcome == "done"
    assert (report.work.before.snapshots, report.work.after.snapshots) == (9, 2)
    assert "grace time" in report.work.note
    # A query that began on an old snapshot can still read all of it.
    for snapshot in table.metadata.snapshots:
        files = ManifestReader().entries(table, ManifestReader().manifests(table, [snapshot]).values())
        assert all(exists(entry.data_file.file_path) for entry in files)

    clock.advance(HOUR + 1)
    report = expire(lake, clock)
    assert report.outcome == "done"
    # These are the six files that were compacted, their manifests, and the lists of seven snapshots.
    assert report.work.removed.files == 6 + 6 + 7
    assert not strays(lake.load(NAME)) - {normalized_path(each.metadata_file) for each in table.metadata.metadata_log}
    assert read_rows(lake) == span(0, 0, 70)
    assert expire(lake, clock).outcome == "nothing"


def test_the_newest_stay_whatever_their_age_and_others_by_age_and_number(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 9)
    ids = [each.snapshot_id for each in sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)]
    now = time.time_ns() // 1_000_000 + 1
    assert expired(table, ExpiryConfig(max_age_hours=0, keep_last=4), now) == ids[:6]
    assert expired(table, ExpiryConfig(max_age_hours=1, keep_last=4), now) == []
    assert expired(table, ExpiryConfig(max_age_hours=1, keep_last=4), now + 3_700_000) == ids[:6]
    assert expired(table, ExpiryConfig(max_age_hours=1, keep_last=2, max_snapshots=7), now) == ids[:3]
    # `keep_last` has precedence over `max_snapshots`.
    assert expired(table, ExpiryConfig(max_age_hours=1, keep_last=8, max_snapshots=7), now) == ids[:2]


def test_the_snapshot_with_the_offsets_can_always_be_found(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 8)
    for _ in range(4):
        compact(lake)
    clock = clock_now()
    report = expire(lake, clock)
    # There are four compactions, and the mover's last commit below them.
    assert report.work.after.snapshots == 5
    assert snapshot_offsets(lake.load(NAME)) == {0: 80}
    check_not_rolled_back(lake.load(NAME))


def test_tags_and_branches_are_respected(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 3)
    tagged = table.current_snapshot()
    assert tagged is not None
    table.manage_snapshots().create_tag(tagged.snapshot_id, "audit").commit()
    table = move(lake, 1)
    branched = table.current_snapshot()
    assert branched is not None
    table.manage_snapshots().create_branch(branched.snapshot_id, "trial").commit()
    compact(lake, count=4)
    move(lake, 4)
    clock = clock_now()
    assert expire(lake, clock).outcome == "done"
    clock.advance(HOUR + 1)
    expire(lake, clock)
    table = lake.load(NAME)
    assert {"main", "audit", "trial"} == set(table.metadata.refs)
    assert table.scan(snapshot_id=tagged.snapshot_id).to_arrow().num_rows == 30
    assert table.scan(snapshot_id=branched.snapshot_id).to_arrow().num_rows == 40
    assert read_rows(lake) == span(0, 0, 80)


def test_a_table_that_was_rolled_back_keeps_everything(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 6)
    old = table.metadata.snapshots[2].snapshot_id
    roll_back(lake, old)
    report = expire(lake, clock_now())
    assert report.outcome == "skipped"
    assert "rolled back" in report.work.note
    assert len(lake.load(NAME).metadata.snapshots) == 7


def test_a_catalog_that_collects_its_own_garbage_is_left_to_it(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 6)
    table.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    report = expire(lake, clock_now())
    assert report.outcome == "skipped"
    assert "garbage collection" in report.work.note


def test_a_dry_run_tells_what_would_go(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 5)
    before = on_disk(table)
    report = expire(lake, clock_now(), dry_run=True)
    assert report.outcome == "would"
    assert (report.work.before.snapshots, report.work.after.snapshots) == (6, 2)
    assert len(report.work.items) == 4
    assert report.work.removed.files == 4
    assert on_disk(table) == before


def test_notes_of_one_moment_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    table = move(lake, 2)
    files = [f"{table.location()}/data/{name}.parquet" for name in "ab"]
    for each in files:
        TableFiles(table).write(each, b"nobody needs it")
        write_note(table, DeletionCandidates({each: 15}, since=-1), ripe_ms=5, name="same")
    assert [len(on_disk(table) & {normalized_path(each)}) for each in files] == [1, 1]
    assert delete_due(table, 4, ManifestReader()) == (Amounts(files=0, bytes=0), 2)
    assert delete_due(table, 5, ManifestReader()) == (Amounts(files=2, bytes=30), 0)
    assert not on_disk(table) & {normalized_path(each) for each in files}
    assert read_rows(lake) == span(0, 0, 20)


@pytest.mark.parametrize("point", ["expire.noted", "expire.forgotten"])
def test_killed_half_way_nothing_is_lost_and_the_next_run_finishes(tmp_path: Path, point: str) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    compact(lake, count=6)
    move(lake, 2)
    code = (
        "import sys; from pathlib import Path; from tests.lake.commit.commits import make_lake;"
        "from tests.maintain.expiring import expire, clock_now; expire(make_lake(Path(sys.argv[1])), clock_now())"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=os.environ | {VARIABLE: point}, timeout=60, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert read_rows(lake) == span(0, 0, 80)
    clock = clock_now()
    for _ in range(2):
        expire(lake, clock)
        clock.advance(HOUR + 1)
    expire(lake, clock)
    table = lake.load(NAME)
    assert len(table.metadata.snapshots) == 2
    old_metadata = {path for path in strays(table) if path.endswith(".metadata.json")}
    assert strays(table) == old_metadata
    assert read_rows(lake) == span(0, 0, 80)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["move", "compact", "expire", "wait", "tag"]), max_size=14),
    seed=st.integers(0, 99),
)
@example(steps=["move", "move", "wait", "expire", "move"], seed=0)
def test_whatever_happens_rows_stay_readable(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    """In the end the files on disk are those that the table refers to."""
    folder = tmp_path_factory.mktemp("expiry")
    rng = random.Random(seed)
    lake = make_lake(folder)
    make_table(lake, {0: 0})
    clock = clock_now()
    tags: dict[int, int] = {}
    moved = 0
    for step in (*steps, "expire", "wait", "expire"):
        clock.ms = max(clock.ms, time.time_ns() // 1_000_000 + 1)
        match step:
            case "move":
                move(lake, 1)
                moved += 10
            case "compact":
                compact(lake, count=rng.randint(2, 4))
            case "expire":
                assert expire(lake, clock).outcome in {"done", "nothing"}
            case "wait":
                clock.advance(HOUR + 1)
            case "tag":
                table = lake.load(NAME)
                snapshot = table.current_snapshot()
                assert snapshot is not None
                table.manage_snapshots().create_tag(snapshot.snapshot_id, f"tag-{len(tags)}").commit()
                tags[len(tags)] = moved
        assert read_rows(lake) == span(0, 0, moved)
    table = lake.load(NAME)
    for number, rows in tags.items():
        tagged = table.metadata.refs[f"tag-{number}"].snapshot_id
        assert table.scan(snapshot_id=tagged).to_arrow().num_rows == rows
    assert {path for path in strays(table) if not path.endswith(".metadata.json")} == set()
