"""Tests tables for topics of every type, which all readers read alike."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from pyiceberg.types import DecimalType, LongType, NestedField, TimestamptzType

from frazil.errors import SchemaEvolution
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.table_schema import base_table_schema, dead_letter_schema
from frazil.log.schema.schema import plain
from tests.examples import examples
from tests.lake.support import local_config, make_base_table

NOON = dt.datetime(2026, 1, 2, 12, 30, 15, 123456, dt.UTC).replace(tzinfo=None)
EVERYTHING: list[tuple[str, pa.DataType, str, Any]] = [
    # The columns are name, type in the topic, type in the table, and a value as the table has it.
    ("bool", pa.bool_(), "boolean", True),
    ("int8", pa.int8(), "int", -128),
    ("int16", pa.int16(), "int", 2**15 - 1),
    ("int32", pa.int32(), "int", -(2**31)),
    ("int64", pa.int64(), "long", 2**63 - 1),
    ("uint8", pa.uint8(), "int", 255),
    ("uint16", pa.uint16(), "int", 2**16 - 1),
    ("uint32", pa.uint32(), "long", 2**32 - 1),
    ("uint64", pa.uint64(), "decimal(20, 0)", Decimal(2**64 - 1)),
    ("float16", pa.float16(), "float", 1.5),
    ("float32", pa.float32(), "float", -0.25),
    ("float64", pa.float64(), "double", 1e300),
    ("date32", pa.date32(), "date", dt.date(1969, 12, 31)),
    ("date64", pa.date64(), "date", dt.date(2026, 1, 2)),
    ("local_ms", pa.timestamp("ms"), "timestamp", NOON),
    ("zoned_us", pa.timestamp("us", "Europe/Berlin"), "timestamptz", NOON.replace(tzinfo=dt.UTC)),
    ("time32", pa.time32("ms"), "long", 43_200_000),
    ("time64", pa.time64("ns"), "long", 43_200_000_000_000),
    ("duration", pa.duration("us"), "long", -5),
    ("decimal", pa.decimal128(38, 10), "decimal(38, 10)", Decimal("12345.6789000000")),
    ("small_decimal", pa.decimal128(5, 2), "decimal(5, 2)", Decimal("-999.99")),
    ("string", pa.string(), "string", "snow ❄"),
    ("binary", pa.binary(), "binary", b"\x00\xff"),
    ("fixed", pa.binary(3), "fixed[3]", b"abc"),
    ("list", pa.list_(pa.uint16()), "list<int>", [1, None]),
    ("map", pa.map_(pa.string(), pa.float32()), "map<string, float>", [("a", 1.0)]),
    ("struct", pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]), "", {"a": 1, "b": ["x"]}),
]
TOPIC_SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _, _ in EVERYTHING])


def test_each_type_has_its_counterpart() -> None:
    schema = base_table_schema(TOPIC_SCHEMA)
    for name, _, expected, _ in EVERYTHING:
        if expected:
            assert str(schema.find_field(name).field_type) == expected, name
    assert str(schema.find_field("struct.b").field_type) == "list<string>"
    assert schema.find_field("time32").doc == "milliseconds since midnight"
    assert schema.find_field("time64").doc == "nanoseconds since midnight"
    assert schema.find_field("duration").doc == "microseconds"


def test_rows_say_where_they_came_from() -> None:
    schema = base_table_schema(pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())]))
    assert [(field.name, field.required) for field in schema.fields] == [
        ("id", True),
        ("text", False),
        ("_log_partition", True),
        ("_offset", True),
    ]
    assert [field.field_id for field in schema.fields] == [1, 2, 3, 4]


def test_nanoseconds_of_a_column_have_a_column_of_their_own() -> None:
    schema = base_table_schema(pa.schema([pa.field("time", pa.timestamp("ns", "UTC"), nullable=False)]))
    assert isinstance(schema.find_field("time").field_type, TimestamptzType)
    companion = schema.find_field("time_ns")
    assert (str(companion.field_type), companion.required) == ("int", True)
    inside = base_table_schema(pa.schema([("s", pa.struct([("time", pa.timestamp("ns"))]))]))
    assert isinstance(inside.find_field("s.time").field_type, LongType)
    assert inside.find_field("s.time").doc == "nanoseconds since 1970"


def test_columns_that_had_only_nulls_wait_for_their_type() -> None:
    schema = base_table_schema(
        pa.schema(
            [
                ("id", pa.int64()),
                ("nothing", pa.null()),
                ("nothings", pa.list_(pa.null())),
                ("s", pa.struct([("nothing", pa.null()), ("a", pa.int64())])),
            ]
        )
    )
    assert [field.name for field in schema.fields] == ["id", "s", "_log_partition", "_offset"]
    assert str(schema.find_field("s").field_type) == "struct<5: a: optional long>"


_HAS_B = pa.struct([("b", pa.int64())])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("_offset", pa.int64())], "'_offset' has the name of a column that Frazil adds"),
        ([("_Log_Partition", pa.int64())], "'_Log_Partition' has the name of a column that Frazil adds"),
        ([("_partition", pa.int64())], "'_partition' has a name that Iceberg keeps for itself"),
        ([("a", pa.int64()), ("A", pa.int64())], "'a' and 'A' differ in case only"),
        ([("a.b", pa.int64()), ("a", _HAS_B)], r"there are two columns 'a\.b'"),
        ([("a", _HAS_B), ("A.B", pa.int64())], r"'a\.b' and 'A\.B' differ in case only"),
        ([("a", pa.list_(_HAS_B)), ("a.element.b", pa.int64())], r"there are two columns 'a\.element\.b'"),
        ([("a", pa.map_(pa.string(), _HAS_B)), ("a.value", pa.int64())], r"there are two columns 'a\.value'"),
        ([("a", pa.struct([("b", pa.int64()), ("B", pa.int64())]))], r"'a\.b' and 'a\.B' differ in case only"),
        ([("a\0b", pa.int64())], "'a.x00b' has a NUL in its name"),
        ([("a", pa.struct([("b\0", pa.int64())]))], r"'a\.b.x00' has a NUL in its name"),
        ([("t", pa.timestamp("ns")), ("t_ns", pa.int64())], "the nanoseconds of 't'"),
        ([("d", pa.decimal256(60, 2))], r"'d' is decimal256\(60, 2\)"),
        ([("s", pa.struct([("i", pa.month_day_nano_interval())]))], r"'s\.i' is month_day_nano_interval"),
    ],
)
def test_what_no_table_can_hold_is_named(columns: list[tuple[str, pa.DataType]], message: str) -> None:
    with pytest.raises(SchemaEvolution, match=message):
        base_table_schema(pa.schema(columns))


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(SchemaEvolution) as caught:
        base_table_schema(pa.schema([("_offset", pa.int64()), ("d", pa.decimal256(60, 2))]))
    assert "'_offset'" in str(caught.value)
    assert "'d'" in str(caught.value)


def test_the_dead_letter_table() -> None:
    assert [(field.name, str(field.field_type)) for field in dead_letter_schema().fields] == [
        ("topic", "string"),
        ("error", "string"),
        ("raw", "binary"),
        ("schema_version", "int"),
        ("failed_at", "timestamptz"),
        ("key", "binary"),
        ("value", "binary"),
        ("_kafka_partition", "int"),
        ("_kafka_offset", "long"),
        ("replayed_at", "timestamptz"),
        ("_log_partition", "int"),
        ("_offset", "long"),
    ]


def test_all_readers_read_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table = make_base_table(Lake(local_config(tmp_path)), schema=TOPIC_SCHEMA)
    values = {name: value for name, _, _, value in EVERYTHING}
    rows = [
        {**values, "_log_partition": 0, "_offset": 0},
        {**dict.fromkeys(values), "_log_partition": 0, "_offset": 1},
    ]
    written = pa.Table.from_pylist(rows, schema=arrow_schema(table.schema()))
    table.append(written)
    expected = written.to_pylist()
    assert table.scan().to_arrow().to_pylist() == expected
    paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    assert _plain(pl.read_parquet(paths).to_arrow().to_pylist()) == _plain(expected)
    with duckdb.connect() as database:
        found = database.read_parquet(paths).to_arrow_table().to_pylist()
    assert _plain(found) == _plain(expected)
    assert _plain(pl.scan_iceberg(table).collect().to_arrow().to_pylist()) == _plain(expected)


def test_files_carry_the_ids_of_their_fields(tmp_path: Path) -> None:
    table = make_base_table(Lake(local_config(tmp_path)), schema=TOPIC_SCHEMA)
    table.append(pa.Table.from_pylist([{"_log_partition": 0, "_offset": 0}], schema=arrow_schema(table.schema())))
    (task,) = table.scan().plan_files()
    stored = pq.read_schema(task.file.file_path.removeprefix("file://"))
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in stored}
    assert ids == {field.name: field.field_id for field in table.schema().fields}


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Converts values that libraries return in different Python types."""

    def bare(value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return value.astimezone(dt.UTC) if value.tzinfo else value
        if isinstance(value, list):
            return [bare(tuple(item.values()) if isinstance(item, dict) else item) for item in value]
        return value

    return [{name: bare(value) for name, value in row.items()} for row in rows]


SIMPLE = st.sampled_from([kind for _, kind, _, _ in EVERYTHING if not pa.types.is_nested(kind)] + [pa.null()])
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])
        ),
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(TYPES, st.booleans()), min_size=1, max_size=5))
@settings(max_examples=examples(100), deadline=None)
def test_ids_are_unique_and_given_in_the_order_that_catalogs_give_them(
    columns: list[tuple[pa.DataType, bool]],
) -> None:
    topic = plain(
        pa.schema(
            [
                pa.field(f"c{i}", kind, nullable or pa.types.is_null(kind))
                for i, (kind, nullable) in enumerate(columns)
            ]
        )
    )
    schema = base_table_schema(topic)
    ids = sorted(schema.field_ids)
    assert ids == list(range(1, len(ids) + 1))
    assert [field.field_id for field in schema.fields] == list(range(1, len(schema.fields) + 1))
    for field in schema.fields:
        assert isinstance(field, NestedField)
        assert not isinstance(field.field_type, DecimalType) or field.field_type.precision <= 38
    # The log has the same 32-bit offsets, so that rows need no copy to fit.
    kinds = str(arrow_schema(schema))
    assert "large_" not in kinds
