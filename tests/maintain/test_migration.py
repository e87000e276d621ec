"""Tests that migrations are done step by step, each atomic, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pyiceberg.table import Table

from frazil.config.sections.maintenance import ExpiryConfig
from frazil.failpoints import VARIABLE
from frazil.maintain.expiry import Expiry
from frazil.maintain.migration import Change, Migration, Step
from frazil.maintain.operations import run_operation
from tests.lake.commit.commits import NAME, make_lake, make_table, read_rows, span
from tests.maintain.migrating import TO_THREE, add_column
from tests.maintain.support import EVENTS, maintenance_context, move


def test_all_steps_in_turn_and_then_nothing(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 2)
    context = maintenance_context(lake)
    planned = run_operation(context, TO_THREE, EVENTS, dry_run=True)
    assert planned.outcome == "would"
    assert planned.work.items == ("version 1 to 2: adds the column source", "version 2 to 3: says the flavour")
    assert lake.load(NAME).metadata.properties["frazil.version"] == "1"
    assert run_operation(context, TO_THREE, EVENTS).outcome == "done"
    table = lake.load(NAME)
    assert table.metadata.properties["frazil.version"] == "3"
    assert table.metadata.properties["frazil.flavour"] == "vanilla"
    assert table.schema().column_names[-1] == "source"
    assert read_rows(lake) == span(0, 0, 20)
    assert run_operation(context, TO_THREE, EVENTS).outcome == "nothing"


def test_killed_between_two_steps_it_goes_on_where_it_was(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    code = (
        "import sys; from pathlib import Path; from frazil.maintain.operations import run_operation;"
        "from tests.lake.commit.commits import make_lake; from tests.maintain.migrating import TO_THREE;"
        "from tests.maintain.support import EVENTS, maintenance_context;"
        "run_operation(maintenance_context(make_lake(Path(sys.argv[1]))), TO_THREE, EVENTS)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | {VARIABLE: "migrate.step:2"},
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    table = lake.load(NAME)
    assert table.metadata.properties["frazil.version"] == "2"
    assert table.schema().column_names.count("source") == 1
    assert run_operation(maintenance_context(lake), TO_THREE, EVENTS).outcome == "done"
    table = lake.load(NAME)
    assert table.metadata.properties["frazil.version"] == "3"
    assert table.schema().column_names.count("source") == 1


def test_a_commit_in_between_is_no_obstacle(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    moved: list[Table] = []

    def plan(table: Table) -> Change:
        if not moved:
            moved.append(move(make_lake(tmp_path), 1))
        return add_column(table)

    report = run_operation(maintenance_context(lake), Migration({1: Step("adds a column", plan)}, newest=2), EVENTS)
    assert report.outcome == "done"
    assert lake.load(NAME).metadata.properties["frazil.version"] == "2"
    assert read_rows(lake) == span(0, 0, 10)


def test_a_table_of_a_newer_frazil_is_refused_by_all(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    table = make_table(lake, {0: 0})
    table.transaction().set_properties({"frazil.version": "2"}).commit_transaction()
    for operation in (Migration(), Expiry(ExpiryConfig())):
        report = run_operation(maintenance_context(lake), operation, EVENTS)
        assert report.outcome == "failed"
        assert "has version 2, and this Frazil knows versions up to 1" in report.work.note


def test_there_is_nothing_to_migrate_today(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    assert run_operation(maintenance_context(lake), Migration(), EVENTS).outcome == "nothing"
