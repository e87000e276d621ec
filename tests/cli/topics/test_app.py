"""Tests `frazil topics` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.opening import open_dead_letter_table, open_derived_table
from tests.cli.support import frazil
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context


def test_without_topics(tmp_path: Path) -> None:
    result = frazil(tmp_path, "topics", "list")
    assert (result.returncode, result.stdout) == (0, f"There are no topics in {tmp_path}/data/store yet.\n")
    assert frazil(tmp_path, "topics", "list", "--output", "json").stdout == "[]\n"
    result = frazil(tmp_path, "topics", "describe", "orders")
    assert result.returncode == 1
    assert result.stderr.startswith("frazil: Topic 'orders' does not exist")


def test_list_and_describe(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    (tmp_path / "b.jsonl").write_text('{"id": 3, "name": "x"}\n')
    frazil(tmp_path, "load", "orders", "a.jsonl")
    frazil(tmp_path, "load", "orders", "b.jsonl")
    frazil(tmp_path, "load", "users", "a.jsonl")

    shown = frazil(tmp_path, "topics", "list").stdout.splitlines()
    assert shown[0].split() == ["topic", "partitions", "first", "next", "sealed", "rows", "bytes", "schema"]
    assert shown[1].split()[:6] == ["orders", "1", "0", "3", "3", "3"]
    assert shown[1].split()[-1] == "v2"
    listed = json.loads(frazil(tmp_path, "topics", "list", "--output", "json").stdout)
    assert [(each["topic"], each["rows"], each["schema_version"]) for each in listed] == [
        ("orders", 3, 2),
        ("users", 2, 1),
    ]

    text = frazil(tmp_path, "topics", "describe", "orders", FRAZIL__LOG__SYNC="always").stdout
    assert text.startswith("orders: ack local, sync always, ")
    assert "version 2: added name (string)" in text
    described = json.loads(frazil(tmp_path, "topics", "describe", "orders", "--output", "json").stdout)
    assert described["schemas"][1]["columns"] == {"id": "int64", "name": "string"}
    (partition,) = described["partitions"]
    assert (partition["first_offset"], partition["sealed_end"], partition["next_offset"]) == (0, 3, 3)
    assert partition["segments"] == 2
    assert partition["owner"]
    assert partition["epoch"]

    result = frazil(tmp_path, "topics", "describe", "order")
    assert result.returncode == 1
    assert "Did you mean 'orders'?" in result.stderr


def test_describe_shows_all_tables(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("topics: {orders: {derived: {big: {sql: SELECT id FROM batch}}}}\n")
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    frazil(tmp_path, "load", "orders", "a.jsonl")

    def tables() -> list[dict[str, object]]:
        return list(json.loads(frazil(tmp_path, "topics", "describe", "orders", "--output", "json").stdout)["tables"])

    assert [(each["name"], "problem" in each) for each in tables()] == [("frazil.orders", True), ("frazil.big", True)]
    config = local_config(tmp_path, topics={"orders": {"derived": {"big": {"sql": "SELECT id FROM batch"}}}})
    with pipeline_context(config) as tools:
        move_all(tools, "orders")
        open_dead_letter_table(tools.lake, tools.store, config, "orders", {0: 2}, {})
        schema = base_table_schema(pa.schema([("id", pa.int64())]))
        open_derived_table(tools.lake, tools.store, config, "orders", "big", schema, {0: 1}, {})
    base, letters, derived = tables()
    assert (base["role"], base["rows"], base["behind"], base["committed_offsets"]) == ("base", 2, 0, {"0": 2})
    assert (letters["role"], letters["rows"], "behind" in letters) == ("dead-letter", 0, False)
    assert (derived["role"], derived["rows"], derived["behind"]) == ("derived", 0, 1)
    text = frazil(tmp_path, "topics", "describe", "orders").stdout
    assert "base table frazil.orders: 2 rows in 1 file, " in text
    assert (
        "dead-letter table frazil.orders__dead_letter: 0 rows in 0 files, 0 bytes\n  goes on at offset 2 of " in text
    )
    assert "derived table frazil.big: 0 rows in 0 files, 0 bytes, 1 sealed record behind the log" in text
