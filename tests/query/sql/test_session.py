"""Tests that SQL over topics gives the same answers as over plain rows, whether these are in table, segments or
tail."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import frazil
from frazil.config.model import Config, SqlConfig
from frazil.errors import ConfigError, QueryError, QueryTimeout, QueryTooLarge
from frazil.formats import kafka
from frazil.query.sql import engine
from frazil.query.sql.databases import Databases
from frazil.query.sql.session import SqlSession
from tests.examples import examples
from tests.lake.random_topics import batches, comparable
from tests.query.support import World, kafka_batch, kafka_record, rows

EVENTS = pa.record_batch(
    {
        "id": pa.array(range(300), pa.int64()),
        "who": pa.array(["ann", "bob", None, "cy"] * 75),
        "amount": pa.array([None if i % 7 == 0 else i * 0.5 for i in range(300)], pa.float64()),
        "day": pa.array([f"2024-01-{1 + i % 28:02d}" for i in range(300)]).cast(pa.date32()),
        "tags": pa.array([[f"t{i % 3}", f"t{i % 5}"] for i in range(300)]),
    }
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Has two topics with rows in table, segments and tail."""
    topics = {"events": {"tenant_column": "who"}}
    with World(tmp_path_factory.mktemp("sql"), topics=topics) as world:
        world.fill("events", EVENTS, moved=100, sealed=200)
        world.fill("a.b", rows(0, 30), moved=10, sealed=20)
        yield world


def ask(config: Config, text: str, tenant: str | None = None, **limits: Any) -> pa.Table:
    changed = config.model_copy(update={"sql": config.sql.model_copy(update=limits)})
    with SqlSession(changed) as session:
        return session.ask(text, tenant)


def test_answers_are_those_of_polars(world: World) -> None:
    frame = pl.DataFrame(pa.table(EVENTS))
    found = pl.DataFrame(
        ask(world.config, "SELECT who, count(*) AS n, sum(amount) AS total FROM events WHERE id >= 50 GROUP BY who")
    )
    wanted = (
        frame.filter(pl.col("id") >= 50)
        .group_by("who")
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("amount").sum().alias("total"))
    )
    assert found.sort("who").equals(wanted.sort("who"))
    found = pl.DataFrame(
        ask(world.config, "SELECT tag, max(id) AS last FROM (SELECT id, unnest(tags) AS tag FROM events) GROUP BY 1")
    )
    wanted = frame.explode("tags").group_by(pl.col("tags").alias("tag")).agg(pl.col("id").max().alias("last"))
    assert found.sort("tag").equals(wanted.sort("tag"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELECT count(*) FROM events AS x JOIN events AS y USING (id)", 300),
        ("WITH e AS (FROM events) SELECT count(*) FROM e AS x, e AS y WHERE x.id = y.id + 1", 299),
        ("SELECT count(*) FROM events WHERE id IN (SELECT max(id) FROM events)", 1),
        ("SELECT count(*) FROM EVENTS, frazil.events AS other WHERE events.id = other.id", 300),
        ("SELECT count(frazil.events.id) FROM frazil.events", 300),
        ('SELECT count(*) FROM "a.b" AS x, a.b AS y, "a"."b" AS z WHERE x.id = y.id AND z.id = 1', 30),
        ("WITH events AS (SELECT 1 AS x) SELECT x FROM events", 1),
        ("SELECT (WITH events AS (SELECT 1) SELECT count(*) FROM events) + count(*) FROM events", 301),
        ("SELECT count(*) FROM events WHERE day = DATE '2024-01-02' AND amount > 5 AND who LIKE 'b%'", 10),
        ("SELECT sum(id) FROM events", sum(range(300))),
        ("SELECT sum(id::HUGEINT * 1000000000000000000) FROM events", None),
        ("SELECT count(DISTINCT _offset) FROM events", 300),
    ],
)
def test_tables_can_be_used_in_all_the_ways_of_sql(world: World, text: str, answer: int | None) -> None:
    (row,) = ask(world.config, text).to_pylist()
    (value,) = row.values()
    if answer is not None:
        assert value == answer


def test_a_query_may_have_more_scans_than_arrow_has_threads_for_files(tmp_path: Path) -> None:
    scans = 2 * pa.io_thread_count()
    with World(tmp_path) as world:
        for part in range(4):
            world.append("t", rows(part * 20_000, 20_000))
            world.seal("t")
            world.move("t")
        scanned = " UNION ALL ".join(["SELECT id FROM t"] * scans)
        found = ask(world.config, f"SELECT count(*) AS n FROM ({scanned})", timeout_seconds=30)
        assert found.to_pylist() == [{"n": scans * 80_000}]


def test_columns_of_one_name_get_names_of_their_own(world: World) -> None:
    found = ask(
        world.config, "SELECT x.id, y.id, 1 AS id_1 FROM events AS x JOIN events AS y USING (id) WHERE id = 3"
    )
    assert found.to_pylist() == [{"id": 3, "id_1": 3, "id_1_1": 1}]


def test_times_with_a_zone_keep_it(world: World) -> None:
    found = ask(
        world.config, "SELECT TIMETZ '12:00:00+02' AS t, 1 AS \"a \"\"b\", TIMETZ '01:00:00-01' AS t ORDER BY 2"
    )
    assert found.to_pylist() == [{"t": "12:00:00+02", 'a "b': 1, "t_1": "01:00:00-01"}]


def test_a_tenant_column_of_bytes_or_of_parts(tmp_path: Path) -> None:
    """Names that are not text belong to others, and a value that cannot be a name is refused."""
    topics = {"bytes": {"tenant_column": kafka.KEY}, "parts": {"tenant_column": "who"}}
    with World(tmp_path, topics=topics) as world:
        keyed = [kafka_record(offset, key=key) for offset, key in enumerate([b"ann", b"\xff", b"ann"])]
        world.fill("bytes", kafka_batch(keyed), moved=1, sealed=2)
        found = ask(world.config, "SELECT _kafka_offset AS o FROM bytes ORDER BY o", "ann")
        assert found["o"].to_pylist() == [0, 2]
        world.append("parts", pa.record_batch({"who": [{"name": "ann"}]}))
        with pytest.raises(ConfigError, match="tenant_column: 'who' is of type struct"):
            ask(world.config, "SELECT count(*) FROM parts", "ann")


def test_what_there_is_can_be_asked(world: World) -> None:
    assert ask(world.config, "SHOW TABLES").to_pylist() == [
        {"name": "a.b", "table": "a.b"},
        {"name": "events", "table": "frazil.events"},
    ]
    described = ask(world.config, "DESCRIBE events").to_pylist()
    assert [(each["column_name"], each["column_type"]) for each in described][:3] == [
        ("id", "BIGINT"),
        ("who", "VARCHAR"),
        ("amount", "DOUBLE"),
    ]
    assert "Filters" in ask(world.config, "EXPLAIN SELECT who FROM events WHERE id > 3")["explain_value"][0].as_py()
    assert len(ask(world.config, "SUMMARIZE events")) == len(described)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM event", r"There is no table 'event'\. Did you mean 'events'\?"),
        ("FROM 'frazil.yaml'", r"There is no table 'frazil\.yaml'"),
        ("FROM information_schema.tables", "There is no table 'information_schema.tables'"),
        ("SELECT * FROM duckdb_settings", "There is no table 'duckdb_settings'"),
        ("FROM __topic_0", "There is no table '__topic_0'"),
        ("SELECT\n  idd\nFROM events", r"line 2, column 3: Referenced column \"idd\" not found"),
        ("SELECT who::INT FROM events", r"line 1, column 11: Could not convert string 'ann' to INT32"),
        ("SELECT 1 + []", "line 1, column"),
        ("SELECT id FROM events GROUP BY who", "line 1, column 8"),
        ("SELECT 1 // 0", "Division by zero"),
    ],
)
def test_errors_say_what_and_where(world: World, text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        ask(world.config, text)


def test_a_tenant_sees_its_own_rows_whatever_it_asks(world: World) -> None:
    mine = {row["id"] for row in EVENTS.to_pylist() if row["who"] == "bob"}
    for text in (
        "SELECT id FROM events",
        "SELECT id FROM events WHERE who <> 'bob' OR who IS NULL OR true",
        "SELECT x.id FROM frazil.events AS x FULL JOIN events AS y USING (id)",
        "WITH e AS (SELECT * REPLACE ('ann' AS who) FROM events) SELECT id FROM e",
    ):
        assert set(ask(world.config, text, "bob")["id"].to_pylist()) == mine
    assert ask(world.config, "SELECT count(*) AS n FROM events", "nobody").to_pylist() == [{"n": 0}]
    assert ask(world.config, 'SELECT count(*) AS n FROM "a.b"', "nobody").to_pylist() == [{"n": 30}]


def test_results_have_as_many_rows_as_allowed_or_it_is_an_error(world: World) -> None:
    assert len(ask(world.config, "SELECT id FROM events", max_rows=300)) == 300
    with pytest.raises(QueryTooLarge, match=r"more than 299 rows \(sql.max_rows\)"):
        ask(world.config, "SELECT id FROM events", max_rows=299)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT list(a.range) FROM range(100000000) AS a",
        "SELECT range, random() AS r FROM range(30000000) ORDER BY r",
        "SELECT repeat('x', 1000000) FROM range(100)",
    ],
)
def test_memory_has_a_limit(world: World, text: str) -> None:
    with pytest.raises(QueryTooLarge, match=r"more than 32 MiB of memory \(sql.max_memory_mb\)"):
        ask(world.config, text, max_memory_mb=32)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b",
        "SELECT count(*) FROM events a, events b, events c, events d WHERE a.id + b.id + c.id * d.id = 7.5",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    ],
)
def test_a_query_that_takes_too_long_is_interrupted(world: World, text: str) -> None:
    started = time.monotonic()
    with pytest.raises(QueryTimeout, match=r"longer than 0\.5 seconds \(sql.timeout_seconds\)"):
        ask(world.config, text, timeout_seconds=0.5)
    assert time.monotonic() - started < 60


def test_a_locked_database_reaches_nothing_even_without_the_parser(tmp_path: Path) -> None:
    """This is the second line of defence: what the parser refuses would not work either."""
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    reachable = pa.table({"a": [1]})  # noqa: F841 - DuckDB finds variables of Python by name, if it may
    with Databases(SqlConfig()).one() as connection:
        engine._lock(connection)
        for text in (
            f"FROM read_csv('{secret}')",
            f"FROM '{secret}'",
            f"FROM read_text('{secret}')",
            f"FROM glob('{tmp_path}/*')",
            f"ATTACH '{tmp_path}/x.db'",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            f"EXPORT DATABASE '{tmp_path}/out'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "FROM reachable",
            "SET memory_limit = '99GB'",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "SET python_enable_replacements = true",
            "SET temp_directory = '/tmp'",
            "PRAGMA enable_profiling",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(text).fetchall()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["secret.csv"]


_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
_MOST = 5
_SIMPLE = re.compile(
    r"(U?(TINY|SMALL|BIG|)INT|U?INTEGER|FLOAT|DOUBLE|VARCHAR|BOOLEAN|DATE|TIME|TIMESTAMP.*|DECIMAL.*|BLOB|UUID)$"
)


@settings(
    max_examples=examples(12), phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)
@given(batch=batches(), data=st.data())
def test_every_type_is_read_and_filtered_as_duckdb_does_it_itself(
    tmp_path_factory: pytest.TempPathFactory, batch: pa.RecordBatch, data: st.DataObject
) -> None:
    """Compares rows from all three sources, with conditions that are evaluated below DuckDB, with DuckDB alone."""
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(batch))] * 2)))
    with World(tmp_path_factory.mktemp("types")) as world, closing(duckdb.connect()) as plain:
        world.fill("t", batch, moved=first, sealed=second)
        plain.register("arrow", frazil.read("t", config=world.config).table())
        plain.execute("SET TimeZone = 'UTC'; CREATE TABLE t AS FROM arrow")
        columns = plain.execute("SELECT column_name, column_type FROM (DESCRIBE t)").fetchall()
        conditions = [data.draw(st.sampled_from([f"{_quoted(name)} IS NULL" for name, _ in columns]))]
        for name, kind in columns:
            if _SIMPLE.match(kind):
                offset = data.draw(st.integers(0, len(batch) - 1))
                operator = data.draw(st.sampled_from(_OPERATORS))
                where = f"WHERE _offset = {offset}"
                ((literal,),) = plain.execute(f"SELECT {_quoted(name)}::VARCHAR FROM t {where}").fetchall()
                value = "NULL" if literal is None else "'" + literal.replace("'", "''") + "'"
                conditions.append(f"{_quoted(name)} {operator} CAST({value} AS {kind})")
                conditions.append(f"{_quoted(name)} IN (CAST({value} AS {kind}), NULL) OR _offset = {offset}")
        with SqlSession(world.config) as session:
            for condition in conditions[:_MOST]:
                text = f"SELECT * FROM t WHERE {condition} ORDER BY _offset"
                wanted = plain.sql(text).to_arrow_table().to_pylist()
                assert comparable(session.ask(text).to_pylist()) == comparable(wanted), condition


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_files_that_cannot_have_the_rows_are_not_read(tmp_path: Path) -> None:
    """The answer is still right when all other files are gone."""
    with World(tmp_path) as world:
        for part in range(4):
            world.append("t", rows(part * 10, 10))
            world.seal("t")
            world.move("t")
        (kept,) = (task.file.file_path for task in world.table("t").scan("id == 25").plan_files())
        for task in world.table("t").scan().plan_files():
            if task.file.file_path != kept:
                Path(task.file.file_path.removeprefix("file://")).unlink()
        for condition in ("id = 25", "25 = id", "id BETWEEN 24 AND 26 AND text = 'row 25'"):
            found = ask(world.config, f"SELECT text FROM t WHERE {condition}")
            assert found.to_pylist() == [{"text": "row 25"}], condition
        found = ask(
            world.config, "WITH few AS (SELECT id, text FROM t) SELECT max(text) AS t FROM few WHERE id IN (21, 25)"
        )
        assert found.to_pylist() == [{"t": "row 25"}]


def test_records_of_kafka_have_the_columns_of_their_values(tmp_path: Path) -> None:
    values = [b'{"n": 1, "who": {"name": "ann"}}', None, b"no json", b'{"n": 2, "new": [1.5]}']
    records = kafka_batch([kafka_record(offset, value=value) for offset, value in enumerate(values * 3)])
    with World(tmp_path, topics={"t": {"format": {"value": "json", "key": "string"}}}) as world:
        world.fill("t", records, moved=4, sealed=8)
        found = ask(
            world.config,
            "SELECT _kafka_offset AS o, _kafka_tombstone AS gone, n, who.name, new[1] AS new FROM t ORDER BY 1",
        )
    assert found.to_pylist() == [
        {"o": offset, "gone": offset % 4 == 1, "n": number, "name": name, "new": new}
        for offset in range(12)
        for number, name, new in [
            [(1, "ann", None), (None, None, None), (None, None, None), (2, None, 1.5)][offset % 4]
        ]
        if offset % 4 != 2
    ]
