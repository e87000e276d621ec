"""Tests `frazil topics resume` as people run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import LongType

from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from tests.cli.support import frazil
from tests.lake.support import local_config
from tests.pipeline.support import found_offsets, move_all, pipeline_context

BASE = ("frazil", "orders")
SETTINGS = "data_dir: data\ntopics: {orders: {derived: {big: {sql: SELECT id FROM batch}}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with a topic of four records in two segments, all in its table, in two snapshots."""
    (tmp_path / "frazil.yaml").write_text(SETTINGS)
    for start in (0, 2):
        load(tmp_path, start)
        move(tmp_path)
    return tmp_path


def load(folder: Path, start: int, count: int = 2) -> None:
    lines = "".join(f'{{"id": {number}, "text": "row"}}\n' for number in range(start, start + count))
    (folder / "rows.jsonl").write_text(lines)
    assert frazil(folder, "load", "orders", "rows.jsonl").returncode == 0


def move(folder: Path) -> None:
    """Move the records as the pipeline would."""
    with pipeline_context(local_config(folder)) as tools:
        move_all(tools, "orders")


def lake(folder: Path) -> Lake:
    return Lake(local_config(folder))


def offsets(folder: Path) -> list[int]:
    return sorted(offset for _, offset in found_offsets(lake(folder), BASE).elements())


def resume(folder: Path, *options: str) -> list[str]:
    result = frazil(folder, "topics", "resume", "orders", *options)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def refused(folder: Path, *options: str) -> tuple[int, str]:
    result = frazil(folder, "topics", "resume", *options)
    assert result.stdout == ""
    return result.returncode, result.stderr


def problems(folder: Path) -> list[dict[str, Any]]:
    found = json.loads(frazil(folder, "topics", "resume", "orders", "--output", "json").stdout)
    assert (found["topic"], found["done"]) == ("orders", [])
    return list(found["problems"])


def expect_free(lines: list[str]) -> None:
    assert lines[-1].startswith("orders can go on: ")


def test_settings_by_which_no_table_can_be_made_are_told(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("data_dir: data\ntopics: {orders: {table: {partition_by: [day(id)]}}}\n")
    load(tmp_path, 0)
    (line,) = resume(tmp_path)
    assert line.startswith("orders cannot go on with frazil.orders: topics.orders.table.partition_by: 'day(id)', ")


def test_nothing_to_decide(folder: Path) -> None:
    before = lake(folder).load(BASE).metadata
    expect_free(resume(folder))
    assert problems(folder) == []
    assert lake(folder).load(BASE).metadata == before


def test_a_topic_that_was_never_moved_gets_no_table(tmp_path: Path) -> None:
    load(tmp_path, 0)
    expect_free(resume(tmp_path))
    assert lake(tmp_path).catalog.list_namespaces() == []


def test_wrong_calls(folder: Path) -> None:
    code, stderr = refused(folder, "order")
    assert (code, "Did you mean 'orders'?" in stderr) == (1, True)
    code, stderr = refused(folder, "orders", "--replay", "--accept")
    assert (code, "One decision at a time, not --replay and --accept." in stderr) == (1, True)
    code, stderr = refused(folder, "orders", "--table", "orders")
    assert (code, "--table needs a decision" in stderr) == (1, True)
    code, stderr = refused(folder, "orders", "--accept", "--table", "other")
    assert (code, "Its tables: frazil.orders, frazil.orders__dead_letter, frazil.big." in stderr) == (1, True)
    for decision in ("replay", "accept", "recreate"):
        code, stderr = refused(folder, "orders", f"--{decision}")
        assert (code, f"--{decision} does not help orders: nothing stops it" in stderr) == (3, True)


def test_a_dropped_table(folder: Path) -> None:
    lake(folder).catalog.drop_table(BASE)
    (line,) = resume(folder)
    assert line.startswith("orders needs a decision about frazil.orders: Table frazil.orders of topic 'orders' was ")
    assert "`frazil topics resume orders --recreate`" in line
    (problem,) = problems(folder)
    assert (problem["table"], problem["role"], problem["kind"]) == ("frazil.orders", "base", "TableDropped")
    assert problem["decisions"] == ["recreate"]
    code, stderr = refused(folder, "orders", "--replay")
    assert (code, "--replay does not help orders: Table frazil.orders" in stderr) == (3, True)
    expect_free(resume(folder, "--recreate"))
    move(folder)
    assert offsets(folder) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("decision", "goes_on", "left"), [("--replay", 2, [0, 1, 2, 3]), ("--accept", 4, [0, 1])], ids=str
)
def test_a_table_that_was_rolled_back(folder: Path, decision: str, goes_on: int, left: list[int]) -> None:
    table = lake(folder).load(BASE)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[-2].snapshot_id).commit()
    (line,) = resume(folder)
    assert "rows up to 2, properties say 4" in line
    lines = resume(folder, decision)
    assert lines[0].endswith(f"it goes on at offset {goes_on} of partition 0.")
    expect_free(lines)
    move(folder)
    assert offsets(folder) == left


@pytest.mark.parametrize("decision", ["--accept-schema", "--dead-letter"])
def test_columns_that_do_not_fit(folder: Path, decision: str) -> None:
    with lake(folder).load(BASE).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("text")
    with lake(folder).load(BASE).update_schema() as update:
        update.add_column("text", LongType())
    (problem,) = problems(folder)
    assert (problem["kind"], problem["decisions"]) == ("SchemaEvolution", ["accept-schema", "dead-letter"])
    expect_free(resume(folder, decision))
    load(folder, 4)
    move(folder)
    assert offsets(folder) == ([0, 1, 2, 3, 4, 5] if decision == "--accept-schema" else [0, 1, 2, 3])
    shown = json.loads(frazil(folder, "topics", "describe", "orders", "--output", "json").stdout)["tables"]
    letters = {table["name"]: table["rows"] for table in shown if table["role"] == "dead-letter"}
    assert letters == ({} if decision == "--accept-schema" else {"frazil.orders__dead_letter": 2})


def another_log(folder: Path, count: int) -> None:
    shutil.rmtree(folder / "data/store/queue/orders/00000")
    shutil.rmtree(folder / "data/wal")
    load(folder, 0, count)


def test_another_log_and_the_table_goes_on(folder: Path) -> None:
    another_log(folder, 5)
    (problem,) = problems(folder)
    assert (problem["kind"], problem["decisions"]) == ("EpochChanged", ["accept", "recreate"])
    done = json.loads(frazil(folder, "topics", "resume", "orders", "--accept", "--output", "json").stdout)
    assert done["done"] == [
        "frazil.orders keeps its rows; it goes on at offset 4 of partition 0.",
        "What the log has from offset 0 up to 4 of partition 0 is not moved, as the table has other rows there.",
    ]
    assert done["problems"] == []
    move(folder)
    assert offsets(folder) == [0, 1, 2, 3, 4]


def test_another_log_that_is_shorter_and_the_table_is_put_aside(folder: Path) -> None:
    another_log(folder, 3)
    (problem,) = problems(folder)
    assert (problem["kind"], problem["decisions"]) == ("OffsetsAhead", ["recreate"])
    lines = resume(folder, "--recreate")
    assert lines[0] == "frazil.orders with its rows is called frazil.orders__old_1 now."
    expect_free(lines)
    move(folder)
    assert offsets(folder) == [0, 1, 2]
    assert TableState.of(lake(folder).load(("frazil", "orders__old_1"))).offsets == {0: 4}


def test_another_table_in_its_place(folder: Path) -> None:
    old = lake(folder).load(BASE)
    lake(folder).catalog.drop_table(BASE)
    lake(folder).catalog.create_table(BASE, old.schema())
    (problem,) = problems(folder)
    assert (problem["kind"], problem["decisions"]) == ("TableReplaced", ["accept"])
    expect_free(resume(folder, "--accept", "--table", "orders"))
    move(folder)
    assert offsets(folder) == [0, 1, 2, 3]
