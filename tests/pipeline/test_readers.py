"""Tests that all readers of Iceberg read the same from tables that the mover wrote."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.config.model import Config
from frazil.lake.catalog.spark import spark_catalog_name
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.log.schema.columns import OFFSET
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context

TOPIC = "everything"
DAYS = 3
ROWS = 300
START = datetime.datetime(2026, 1, 30, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("time", pa.timestamp("ns", "UTC")),
        ("local", pa.timestamp("ms")),
        ("day", pa.date32()),
        ("small", pa.int8()),
        ("big", pa.uint64()),
        ("price", pa.decimal128(12, 2)),
        ("ratio", pa.float32()),
        ("exact", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("attributes", pa.map_(pa.string(), pa.int64())),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)
TABLE = {
    "partition_by": ["day(time)", "bucket(4, id)", "truncate(1, text)"],
    "sort_by": ["text desc nulls last", "id"],
}


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "time": int((START + datetime.timedelta(days=i % DAYS, seconds=i)).timestamp()) * 10**9 + i,
            "local": datetime.datetime(2026, 1, 1) + datetime.timedelta(milliseconds=i),  # noqa: DTZ001 - has no zone
            "day": datetime.date(2026, 1, 1 + i % 28),
            "small": i % 100,
            "big": 2**64 - 1 - i,
            "price": Decimal(i) / 100,
            "ratio": i / 4,
            "exact": float("nan") if i % 50 == 0 else i / 3,
            "flag": i % 2 == 0,
            "text": None if i % 7 == 0 else f"{'äbc'[i % 3]}-{i}",
            "bytes": bytes([i % 256]),
            "tags": [f"t{i}", None] if i % 5 else None,
            "attributes": {"k": i, "n": None} if i % 4 else {},
            "inner": {"a": i, "b": f"b{i}"},
        }
        for i in range(ROWS)
    ]


def test_all_readers_read_the_same_rows(
    tmp_path: Path, spark_for: Callable[[Config], SparkSession], monkeypatch: Any
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    config = local_config(tmp_path, topics={TOPIC: {"table": TABLE}})
    with closing(Log(config)) as log:
        writer = log.writer(TOPIC, SCHEMA)
        for part in (rows()[:120], rows()[120:]):
            writer.append(pa.RecordBatch.from_pylist(part, SCHEMA))
            writer.seal_all()
    with pipeline_context(config) as context:
        move_all(context, TOPIC)
        identifier = base_identifier(config, TOPIC)
        table = context.lake.load(identifier)
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    expected = bare(table.scan().to_arrow())
    assert len(expected) == ROWS
    assert expected[8]["big"] == 2**64 - 1 - 8
    assert (expected[8]["time"].microsecond, expected[8]["time_ns"]) == (0, 8)
    assert bare(pl.scan_iceberg(table).collect().to_arrow()) == expected
    with duckdb.connect() as database:
        assert bare(database.read_parquet(files).to_arrow_table()) == expected
    spark = spark_for(config)
    name = ".".join((spark_catalog_name(config), *identifier))
    assert bare(spark.table(name).toArrow()) == expected

    day = table.scan("time >= '2026-01-31T00:00:00+00:00' and time < '2026-02-01T00:00:00+00:00'")
    assert 0 < len(list(day.plan_files())) < len(files), "files of other days are not read"
    one = table.scan("id == 17")
    assert len(list(one.plan_files())) < len(files), "files whose ids are all larger or smaller are not read"
    assert one.to_arrow()["id"].to_pylist() == [17]
    found = spark.sql(f"SELECT count(*), count(DISTINCT {OFFSET}) FROM {name} WHERE time >= '2026-01-31'").collect()
    assert list(found[0]) == [ROWS * 2 // DAYS, ROWS * 2 // DAYS]


def bare(table: pa.Table) -> list[dict[str, Any]]:
    """Returns rows in the order of their offsets, with values that libraries return in different types made equal."""
    return [{key: _bare(value) for key, value in row.items()} for row in table.sort_by(OFFSET).to_pylist()]


def _bare(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    if isinstance(value, list) and value and isinstance(value[0], dict) and set(value[0]) == {"key", "value"}:
        value = [(each["key"], each["value"]) for each in value]
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items()}
    return value
