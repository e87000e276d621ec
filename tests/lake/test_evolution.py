"""Tests that tables follow their topics, and that other changes are reported and made when a person agrees."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.errors import SchemaEvolution
from frazil.lake.catalog.lake import Lake
from frazil.lake.evolution import (
    evolved_schema,
    follow_first,
    follow_topic,
    must_change_for,
    plan_evolution,
    set_on_mismatch,
)
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.column_merge import ColumnMerge
from frazil.lake.schema.table_schema import base_table_schema, topic_fields
from frazil.lake.schema_acceptance import accept_schema
from tests.examples import examples
from tests.lake.support import local_config, make_base_table, nessie_config


@pytest.fixture(params=["sqlite", "nessie"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """Returns settings for each kind of catalog in turn."""
    if request.param == "sqlite":
        return local_config(tmp_path)
    servers = [request.getfixturevalue(name) for name in ("nessie", "s3_server", "namespace")]
    return nessie_config(tmp_path, *servers)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(local_config(tmp_path))


BEFORE = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("weight", pa.float32()),
        ("place", pa.struct([("x", pa.int32())])),
        ("tags", pa.list_(pa.struct([("n", pa.int32())]))),
        ("marks", pa.map_(pa.string(), pa.float32())),
        ("later", pa.null()),
    ]
)
AFTER = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("weight", pa.float64()),
        ("place", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("tags", pa.list_(pa.struct([("n", pa.int64()), ("more", pa.list_(pa.string()))]))),
        ("marks", pa.map_(pa.string(), pa.float64())),
        ("later", pa.timestamp("ns")),
        ("added", pa.map_(pa.string(), pa.struct([("deep", pa.bool_())]))),
    ]
)


def append(table: Table, *rows: dict[str, Any]) -> None:
    filled = [{"_log_partition": 0, "_offset": number, **row} for number, row in enumerate(rows)]
    table.append(pa.Table.from_pylist(filled, schema=arrow_schema(table.schema())))


def rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().drop_columns(["_log_partition", "_offset"]).to_pylist()
    return found


def types(table: Table) -> dict[str, str]:
    return {name: str(table.schema().find_field(name).field_type) for name in table.schema().column_names}


def test_a_table_follows_all_that_a_topic_may_become(config: Config) -> None:
    lake = Lake(config)
    table = make_base_table(lake, schema=BEFORE)
    append(table, {"id": 1, "weight": 0.5, "place": {"x": 1}, "tags": [{"n": 1}], "marks": [("a", 0.5)]})
    old = {name: table.schema().find_field(name).field_id for name in table.schema().column_names}
    table = follow_topic(lake, lake.load(table.name()), AFTER)
    for name, field_id in old.items():
        assert table.schema().find_field(name).field_id == field_id
    wanted = base_table_schema(AFTER)
    simple = [name for name in wanted.column_names if wanted.find_field(name).field_type.is_primitive]
    assert {name: types(table)[name] for name in simple} == {
        name: str(wanted.find_field(name).field_type) for name in simple
    }
    assert table.schema().find_field("id").required
    (row,) = rows(table)
    assert row == {
        "id": 1,
        "weight": 0.5,
        "place": {"x": 1, "y": None},
        "tags": [{"n": 1, "more": None}],
        "marks": [("a", 0.5)],
        "later": None,
        "later_ns": None,
        "added": None,
    }
    append(table, {"id": 2**40, "place": {"x": 2**40, "y": "y"}, "tags": [{"n": 2**40, "more": ["m"]}]})
    assert {row["id"] for row in rows(table)} == {1, 2**40}


def test_a_table_that_needs_nothing_is_left_alone(lake: Lake) -> None:
    table = make_base_table(lake, schema=AFTER)
    for narrower in (AFTER, BEFORE):
        assert follow_topic(lake, table, narrower) is table
    assert plan_evolution(table, AFTER).changes == []
    assert lake.load(table.name()).metadata_location == table.metadata_location


def test_changes_are_told_in_words(lake: Lake) -> None:
    table = make_base_table(lake, schema=pa.schema([("a", pa.int32())]))
    plan = plan_evolution(table, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    assert plan.changes == ["column 'a' becomes long, from int", "new column 'b' (string)"]


def test_every_problem_is_listed(lake: Lake) -> None:
    table = make_base_table(
        lake,
        schema=pa.schema(
            [
                pa.field("gone", pa.int64(), nullable=False),
                pa.field("strict", pa.int64(), nullable=False),
                ("a", pa.int64()),
                ("s", pa.struct([("x", pa.string())])),
                ("narrow", pa.float64()),
            ]
        ),
    )
    topic = pa.schema(
        [
            ("strict", pa.int64()),
            ("a", pa.string()),
            ("s", pa.struct([("x", pa.bool_())])),
            ("narrow", pa.float32()),
            pa.field("must", pa.int64(), nullable=False),
        ]
    )
    with pytest.raises(SchemaEvolution) as caught:
        follow_topic(lake, table, topic)
    message = str(caught.value)
    for part in (
        "'gone' is required in the table, but the topic does not have it",
        "'strict' is required in the table, but may be null in the topic",
        "'a' is long in the table, but string in the topic",
        "'s.x' is string in the table, but boolean in the topic",
        "'must' is required, but the rows that are there do not have it",
        "frazil topics resume orders --accept-schema",
        "--dead-letter",
    ):
        assert part in message
    assert "narrow" not in message
    assert not caught.value.retryable
    assert lake.load(table.name()).metadata == table.metadata


def test_accepting_puts_columns_aside_and_keeps_their_values(config: Config) -> None:
    lake = Lake(config)
    table = make_base_table(
        lake,
        schema=pa.schema(
            [
                pa.field("a", pa.int64(), nullable=False),
                ("s", pa.struct([("x", pa.string())])),
                pa.field("gone", pa.int64(), nullable=False),
                ("same", pa.string()),
            ]
        ),
    )
    append(table, {"a": 1, "s": {"x": "old"}, "gone": 2, "same": "same"})
    topic = pa.schema([("a", pa.string()), ("s", pa.struct([("x", pa.bool_())])), ("same", pa.string())])
    table = accept_schema(lake, lake.load(table.name()), topic)
    append(table, {"a": "new", "s": {"x": True}, "same": "still"})
    by_same = {row["same"]: row for row in rows(table)}
    assert by_same == {
        "same": {"a__1": 1, "s__1": {"x": "old"}, "gone": 2, "same": "same", "a": None, "s": None},
        "still": {"a__1": None, "s__1": None, "gone": None, "same": "still", "a": "new", "s": {"x": True}},
    }
    again = accept_schema(lake, table, pa.schema([("a", pa.bool_()), ("same", pa.string())]))
    assert {"a", "a__1", "a__2"} <= set(again.schema().column_names)
    assert follow_topic(lake, again, pa.schema([("a", pa.bool_())])) is again


def test_accepting_moves_the_sort_order_to_the_column_that_takes_over(lake: Lake) -> None:
    schema = pa.schema([("time", pa.timestamp("us")), ("a", pa.int64()), ("b", pa.string())])
    layout = TableLayoutConfig(sort_by=["day(time)", "a desc", "b"])
    table = make_base_table(lake, schema=schema, layout=layout)
    table = accept_schema(lake, table, pa.schema([("time", pa.string()), ("a", pa.string()), ("b", pa.string())]))
    names = [table.schema().find_column_name(field.source_id) for field in table.sort_order().fields]
    assert names == ["a", "b"]
    assert lake.load(table.name()).sort_order() == table.sort_order()


def test_a_partition_s_column_cannot_be_put_aside(lake: Lake) -> None:
    layout = TableLayoutConfig(partition_by=["bucket(4, a)"])
    table = make_base_table(lake, schema=pa.schema([("a", pa.int64())]), layout=layout)
    with pytest.raises(SchemaEvolution, match="partitioned by column 'a', which cannot be put aside"):
        accept_schema(lake, table, pa.schema([("a", pa.bool_())]))
    widened = follow_topic(
        lake,
        make_base_table(lake, "w", pa.schema([("a", pa.int32())]), layout=layout),
        pa.schema([("a", pa.int64())]),
    )
    assert types(widened)["a"] == "long"


def test_names_that_spark_would_refuse_the_table_for(lake: Lake) -> None:
    layout = TableLayoutConfig(partition_by=["day(time)"])
    schema = pa.schema([("time", pa.timestamp("us"))])
    table = make_base_table(lake, schema=schema, layout=layout)
    for name in ("time_day", "Time"):
        grown = schema.append(pa.field(name, pa.string()))
        if name == "Time":
            grown = pa.schema([(name, pa.string())])
        with pytest.raises(SchemaEvolution, match=f"name of column '{name}' is taken"):
            follow_topic(lake, table, grown)


def test_names_inside_of_others_are_taken_too(lake: Lake) -> None:
    inside = pa.struct([("b", pa.int64())])
    table = make_base_table(lake, schema=pa.schema([("a", inside), ("c.d", pa.int64())]))
    clashing = pa.schema([("A.b", pa.int64())]), pa.schema([("c", pa.struct([("d", pa.int64())]))])
    for rows in (*clashing, pa.schema([("a", pa.struct([("B", pa.int64())]))])):
        assert must_change_for(table.metadata, rows)
        with pytest.raises(SchemaEvolution, match="is taken in the table by another"):
            follow_topic(lake, table, rows)
        with pytest.raises(SchemaEvolution, match="is taken in the table by another"):
            accept_schema(lake, table, rows)
    more = pa.schema([("x", pa.int64())])
    assert evolved_schema(table.metadata, *clashing, more).find_field("x")
    table = follow_topic(lake, set_on_mismatch(lake, table, "dead-letter"), *clashing, more)
    assert {"a", "c.d", "x"} <= set(types(table))
    assert not {"A.b", "c"} & set(types(table))


def test_of_schemas_that_clash_the_first_is_followed(lake: Lake) -> None:
    table = make_base_table(lake, schema=pa.schema([("a", pa.int64())]))
    clashing = [
        pa.schema([("n", pa.int64())]),
        pa.schema([("n", pa.string()), ("s", pa.string())]),
        pa.schema([("N", pa.int64()), ("t", pa.string())]),
        pa.schema([("n", pa.float64()), ("u", pa.string())]),
    ]
    table = follow_first(lake, table, *clashing)
    assert (types(table)["n"], types(table)["u"]) == ("double", "string")
    assert not {"N", "s", "t"} & set(types(table))
    with pytest.raises(SchemaEvolution, match="'n' is double in the table, but string"):
        follow_first(lake, table, *clashing[1:3])


def test_with_dead_letters_a_table_follows_what_it_can(lake: Lake) -> None:
    table = make_base_table(lake, schema=pa.schema([("a", pa.int64())]))
    topic = pa.schema([("a", pa.string()), ("b", pa.string())])
    with pytest.raises(SchemaEvolution):
        follow_topic(lake, table, topic)
    table = follow_topic(lake, set_on_mismatch(lake, table, "dead-letter"), topic)
    assert (types(table)["a"], types(table)["b"]) == ("long", "string")
    with pytest.raises(SchemaEvolution):
        follow_topic(lake, set_on_mismatch(lake, table, "stop"), topic)


def test_many_follow_at_once_and_each_column_is_added_once(config: Config) -> None:
    lake = Lake(config)
    schema = pa.schema([("a", pa.int32())])
    stale = make_base_table(lake, schema=schema)
    wanted = [schema.append(pa.field(name, pa.string())) for name in ("b", "c", "b", "d")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda topic: follow_topic(Lake(config), stale, topic), wanted))
    table = lake.load(stale.name())
    assert sorted(types(table)) == ["_log_partition", "_offset", "a", "b", "c", "d"]
    ids = [field.field_id for field in table.schema().fields]
    assert len(set(ids)) == len(ids)


# --- invariants of merging ---------------------------------------------------------------------------------

NUMBERS = [(pa.int8(), pa.int32(), pa.int64()), (pa.float16(), pa.float32(), pa.float64())]


@st.composite
def topics_and_what_they_become(draw: st.DrawFn) -> tuple[pa.Schema, pa.Schema]:
    """Draws a topic's schema, and a later one that the log would accept."""

    def kind(depth: int) -> tuple[pa.DataType, pa.DataType]:
        choice = draw(st.integers(0, 5 if depth < 3 else 2))
        if choice == 0:
            return pa.string(), pa.string()
        if choice == 1:
            family = draw(st.sampled_from(NUMBERS))
            low = draw(st.integers(0, 2))
            return family[low], family[draw(st.integers(low, 2))]
        if choice == 2:
            return pa.null(), draw(st.sampled_from([pa.null(), pa.bool_(), pa.timestamp("ns")]))
        if choice == 3:
            before, after = kind(depth + 1)
            return pa.list_(before), pa.list_(after)
        if choice == 4:
            before, after = kind(depth + 1)
            return pa.map_(pa.string(), before), pa.map_(pa.string(), after)
        before, after = fields(depth + 1)
        return pa.struct(before), pa.struct(after)

    def fields(depth: int) -> tuple[list[pa.Field], list[pa.Field]]:
        count, added = draw(st.integers(1, 3)), draw(st.integers(0, 2))
        pairs = [kind(depth) for _ in range(count)]
        before = [pa.field(f"c{i}", pair[0]) for i, pair in enumerate(pairs)]
        after = [pa.field(f"c{i}", pair[1]) for i, pair in enumerate(pairs)]
        return before, after + [pa.field(f"n{i}", kind(depth)[1]) for i in range(added)]

    before, after = fields(0)
    return pa.schema(before), pa.schema(after)


@given(topics_and_what_they_become())
@settings(max_examples=examples(200), deadline=None)
def test_what_the_log_lets_a_topic_become_its_table_can_follow(change: tuple[pa.Schema, pa.Schema]) -> None:
    before, after = change
    schema = base_table_schema(before)
    merge = ColumnMerge.after(schema.highest_field_id)
    wanted, problems = topic_fields(after)
    own = [field for field in schema.fields if field.name.startswith("_")]
    merged = merge.columns(schema.fields, [*wanted, *own])
    assert (problems, merge.problems) == ([], [])
    # No existing column has another id, and the second time nothing is left to do.
    kept = type(schema)(*merged)
    for field_id in schema.field_ids:
        assert kept.find_column_name(field_id) == schema.find_column_name(field_id)
    again = ColumnMerge.after(kept.highest_field_id)
    assert again.columns(merged, [*wanted, *own]) == merged
    assert (again.changes, again.problems) == ([], [])
    # The table has every column that a new table of the topic would have.
    today = base_table_schema(after)
    assert set(today.column_names) <= set(kept.column_names)
