"""Columns that no table can have are refused when they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from frazil.errors import SchemaMismatch
from frazil.log.schema.columns import LONGEST_NAME, MOST_LEVELS, check_columns, count_columns
from frazil.log.schema.paths import folded
from frazil.log.schema.schema import plain
from frazil.log.topics.schemas import TopicSchemas
from frazil.store.local import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INT = pa.int64()


def one(name: str) -> pa.Schema:
    return pa.schema([(name, INT)])


def nested(levels: int) -> pa.Schema:
    kind = INT
    for _ in range(levels):
        kind = pa.struct([("x", kind)])
    return one("top").set(0, pa.field("top", kind))


def inside(*names: str) -> pa.Schema:
    return pa.schema([("s", pa.list_(pa.struct([(name, INT) for name in names])))])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (one(""), "column '' has no name"),
        (inside(""), r"column 's\.element\.' has no name"),
        (one("a\0b"), "has a NUL in its name"),
        (one("a\nb"), r"column 'a\\nb' has a control character in its name"),
        (inside("\x1b[31m"), "has a control character in its name"),
        (one("a\x85"), "has a control character in its name"),
        (one("x" * (LONGEST_NAME + 1)), "has a name of 256 characters; 255 are the most"),
        (one("_offset"), "'_offset' has the name of a column that Frazil adds to every row"),
        (one("_LOG_partition"), "has the name of a column that Frazil adds"),
        (one("_file"), "'_file' has a name that Iceberg keeps for itself"),
        (inside("a", "A"), r"'s\.element\.a' and 's\.element\.A' differ in case only"),
        (inside("a", "a"), r"there are two columns 's\.element\.a'"),
        (
            pa.schema([("a b", INT), ("a_x20b", INT)]),
            "'a b' and 'a_x20b' have one name in the files that Spark writes",
        ),
        (inside("1", "_1"), "have one name in the files"),
        (pa.schema([("ı", INT), ("I", INT)]), "differ in case only"),
        (pa.schema([("t", pa.timestamp("ns")), ("T_NS", INT)]), "the nanoseconds of 't'"),
        (pa.schema([("d", pa.decimal256(60, 2))]), r"'d' has the type decimal256\(60, 2\)"),
        (pa.schema([("d", pa.list_(pa.decimal128(5, -2)))]), "Scale must be a non-negative integer"),
        (
            pa.schema([(f"c{i}", INT) for i in range(101)]),
            r"they are 101, .* and 100 are the most \(`log.max_columns`\)",
        ),
        (inside(*(f"c{i}" for i in range(100))), "they are 101, with those inside of others"),
        (nested(MOST_LEVELS + 1), "more than 50 levels deep"),
        (nested(400), "more than 50 levels deep"),
    ],
)
def test_what_is_refused(local_store: LocalStore, schema: pa.Schema, message: str) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        TopicSchemas(local_store, "t", most_columns=100).admit(schema)
    assert TopicSchemas(local_store, "t").latest() is None


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema(
            [(name, INT) for name in ("a b", "a.c", "`", '"', "'", "é", "e\u0301", "日本", "😀", " ", "_", "1")]
        ),
        one("x" * LONGEST_NAME),
        inside("_offset", "_file", "_log_partition"),
        pa.schema([("ß", INT), ("SS", INT), ("ss_", INT)]),
        pa.schema([("m", pa.map_(pa.string(), INT)), ("d", pa.decimal128(38, 38))]),
        inside(*(f"c{i}" for i in range(99))),
        nested(MOST_LEVELS),
    ],
)
def test_what_is_odd_but_can_be(local_store: LocalStore, schema: pa.Schema) -> None:
    assert TopicSchemas(local_store, "t", most_columns=100).admit(schema).schema.equals(plain(schema))


def test_what_a_topic_has_already_is_let_be(local_store: LocalStore) -> None:
    before = pa.schema([("a", INT), ("A", INT)])
    check_columns(pa.schema([*before, ("b", INT)]), 100, before)
    with pytest.raises(SchemaMismatch, match="'_pos'") as caught:
        check_columns(pa.schema([*before, ("_pos", INT)]), 100, before)
    assert "'a'" not in str(caught.value)
    with pytest.raises(SchemaMismatch, match="they are 3"):
        check_columns(pa.schema([*before, ("b", INT)]), 2, before)


def test_a_clash_with_what_the_topic_has_is_found(local_store: LocalStore) -> None:
    schemas = TopicSchemas(local_store, "t", most_columns=3)
    schemas.admit(one("a"))
    with pytest.raises(SchemaMismatch, match="'a' and 'A' differ in case only"):
        schemas.admit(one("A"))
    with pytest.raises(SchemaMismatch, match="they are 4"):
        schemas.admit(pa.schema([("b", INT), ("c", INT), ("d", INT)]))
    assert schemas.admit(one("a")).version == 1


def test_what_counts_as_a_column() -> None:
    kind = pa.struct([("a", INT), ("l", pa.list_(pa.struct([("x", INT)]))), ("m", pa.map_(pa.string(), INT))])
    assert count_columns(kind) == 4


@pytest.mark.timeout(120)
def test_no_schema_takes_long() -> None:
    """Each name is looked up once. To compare each with all others would run into the time limit."""
    wide = pa.schema([(f"column_{i}", INT) for i in range(100_000)])
    assert len(plain(wide)) == 100_000


def test_letters_that_java_takes_for_one_are_one(spark: SparkSession) -> None:
    """Spark compares names by `equalsIgnoreCase`: letter by letter in upper, and then in lower case."""
    upper = "int(reflect('java.lang.Character', 'toUpperCase', int(id)))"
    found = spark.sql(f"SELECT id, int(reflect('java.lang.Character', 'toLowerCase', {upper})) FROM range(1, 55295)")
    missed = [(chr(code), chr(like)) for code, like in found.collect() if folded(chr(code)) != folded(chr(like))]
    assert missed == []
