"""Tests `frazil maintain` as people run it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import snapshot_offsets
from frazil.lake.tables.table_history import add_table
from frazil.store import open_store
from tests.cli.support import FRAZIL, environment, frazil
from tests.lake.checksums.damage import data_paths, flip
from tests.lake.commit.commits import NAME, live_files, make_lake, make_table, read_rows, span
from tests.maintain.support import HOUR, move, stray


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Returns a lake with a table of six small files and seven snapshots, where `frazil` looks for it."""
    made = make_lake(tmp_path / "data")
    make_table(made, {0: 0})
    move(made, 6)
    return made


def test_without_tables_it_says_so(tmp_path: Path) -> None:
    done = frazil(tmp_path, "maintain", "all")
    assert done.returncode == 0, done.stderr
    assert "no tables of Frazil's" in done.stdout


def test_a_dry_run_of_everything_needs_no_java_and_changes_nothing(tmp_path: Path, lake: Lake) -> None:
    before = lake.load(NAME).metadata_location
    done = frazil(tmp_path, "maintain", "all", "--dry-run", "--output", "json", JAVA_HOME="/nowhere", PATH="")
    assert done.returncode == 0, done.stderr
    outcomes = {each["operation"]: each["outcome"] for each in json.loads(done.stdout)}
    assert outcomes == {
        "migrate": "nothing",
        "retention": "nothing",
        "compact": "would",
        "manifests": "nothing",
        "expire": "nothing",
        "orphans": "nothing",
        # There is no log at all, and the table says that it came from one.
        "trim": "skipped",
    }
    assert lake.load(NAME).metadata_location == before


@pytest.mark.xdist_group("own-jvm")
def test_compaction_reports_files_before_and_after(tmp_path: Path, lake: Lake) -> None:
    # Starting a JVM takes time on a busy machine.
    done = subprocess.run(
        [FRAZIL, "maintain", "compact"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "starting Spark" in done.stderr
    assert "6 → 1" in done.stdout
    assert len(live_files(lake.load(NAME))) == 1
    assert read_rows(lake) == span(0, 0, 60)
    assert snapshot_offsets(lake.load(NAME)) == {0: 60}
    again = frazil(tmp_path, "maintain", "compact", "events")
    assert again.returncode == 0
    assert "nothing" in again.stdout
    assert "Spark" not in again.stderr
    result = frazil(tmp_path, "txlog", "show", "--output", "json")
    assert [entry["op_type"] for entry in json.loads(result.stdout) if "op_type" in entry] == ["compact"]


def test_orphans_are_listed_and_then_removed(tmp_path: Path, lake: Lake) -> None:
    table = lake.load(NAME)
    old = stray(table, "old.parquet", (time.time() - 30 * HOUR) * 1000)
    refused = frazil(tmp_path, "maintain", "orphans", "--older-than-hours", "23.9")
    assert refused.returncode == 1
    assert "24 or more" in refused.stderr
    listed = frazil(tmp_path, "maintain", "orphans", "--older-than-hours", "24", "--dry-run")
    assert str(old) in listed.stdout
    assert old.exists()
    removed = frazil(tmp_path, "maintain", "orphans", "--older-than-hours", "24")
    assert removed.returncode == 0, removed.stderr
    assert not old.exists()


def test_a_name_that_means_nothing_is_an_error(tmp_path: Path, lake: Lake) -> None:
    done = frazil(tmp_path, "maintain", "expire", "evnets")
    assert done.returncode == 1
    assert "'evnets'" in done.stderr
    assert "frazil.events" in done.stderr


def test_a_failure_is_exit_3_with_its_reason(tmp_path: Path, lake: Lake) -> None:
    lake.load(NAME).transaction().set_properties({"frazil.version": "2"}).commit_transaction()
    done = frazil(tmp_path, "maintain", "migrate")
    assert done.returncode == 3
    assert "this Frazil knows versions up to 1" in done.stderr
    assert "failed" in done.stdout


def test_a_base_table_that_is_gone_for_good_is_let_go_of(tmp_path: Path, lake: Lake) -> None:
    gone = ("frazil", "events_of_old")
    store = open_store(lake.config.store, lake.config.data_dir)
    add_table(store, "events", gone, make_table(lake, {0: 0}, gone), "base")
    lake.catalog.drop_table(gone)
    result = frazil(tmp_path, "maintain", "trim", "events")
    assert "frazil maintain trim events --release frazil.events_of_old" in result.stdout
    unclear = frazil(tmp_path, "maintain", "trim", "--release", "frazil.events_of_old")
    assert unclear.returncode == 1
    assert "name the one topic" in unclear.stderr
    wrong = frazil(tmp_path, "maintain", "trim", "events", "--release", "frazil.evnets")
    assert wrong.returncode == 1
    assert "It is for: frazil.events_of_old" in wrong.stderr
    done = frazil(tmp_path, "maintain", "trim", "events", "--release", "frazil.events_of_old")
    assert done.returncode == 0, done.stderr
    assert "--release" not in done.stdout


def test_verify_names_damaged_files_and_those_without_checksums(tmp_path: Path, lake: Lake) -> None:
    done = frazil(tmp_path, "maintain", "verify", "--output", "json", JAVA_HOME="/nowhere")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["files"], found["damaged"], len(found["without"])) == (6, {}, 6)

    first, second = data_paths(lake.load(NAME))[:2]
    flip(first, 8 * (first.stat().st_size - 2))
    second.write_bytes(second.read_bytes()[:-10])
    done = frazil(tmp_path, "maintain", "verify", "events")
    assert done.returncode == 4
    for path in (first, second):
        assert f"frazil/events/data/{path.parent.name}/{path.name}" in done.stderr
        assert f"damaged: frazil/events/data/{path.parent.name}/{path.name}" in done.stdout
    done = frazil(tmp_path, "maintain", "verify", "events", "--drop-damaged")
    assert done.returncode == 0, done.stderr
    assert "dropped: " in done.stdout
    assert len(live_files(lake.load(NAME))) == 4
