"""Tests that odd but valid names are moved into a table, and are read everywhere as they were written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import frazil
from frazil.config.model import Config
from frazil.query.sql.session import SqlSession
from tests.query.support import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "a b",
    "a.b",
    "a`b",
    'a"b',
    "a'b",
    " ",
    "é",
    "e\u0301",
    "ß",
    "SS",
    "日本",
    "😀",
    "select",
    "element",
    "1",
    "--",
    "a,b;(c)=[d]{e}",
    "x" * 255,
]
KIND = pa.struct([(name, pa.int64()) for name in [*NAMES, "_offset", "_file"]])
SCHEMA = pa.schema(
    [*((name, pa.int64()) for name in NAMES), ("inside", pa.list_(KIND)), ("m", pa.map_("string", KIND))]
)


def row(number: int) -> dict[str, object]:
    """The keys of maps are data, so all names are fine there."""
    inner = {field.name: number + at for at, field in enumerate(KIND)}
    return {
        **{name: number + at for at, name in enumerate(NAMES)},
        "inside": [inner],
        "m": [("", inner), ("a\0", inner)],
    }


@pytest.mark.usefixtures("spark_user")
def test_rows_come_back_from_table_and_log(tmp_path: Path, spark_for: Callable[[Config], SparkSession]) -> None:
    expected = [row(number) for number in (0, 1000, 2000)]
    batch = pa.RecordBatch.from_pylist(expected, SCHEMA)
    with World(tmp_path) as world:
        world.fill("odd", batch, moved=1, sealed=2)
        found = frazil.read("odd", config=world.config).table().select(SCHEMA.names).to_pylist()
        assert sorted(found, key=lambda each: each["é"]) == expected
        columns = ", ".join('"{}"'.format(name.replace('"', '""')) for name in SCHEMA.names)
        with SqlSession(world.config) as session:
            asked = session.ask(f'SELECT {columns} FROM odd ORDER BY "é"').to_pylist()
        assert asked == expected
        assert world.table("odd").scan().to_arrow().select(SCHEMA.names).to_pylist() == expected[:1]
        spark = spark_for(world.config)
        (seen,) = spark.table("frazil.frazil.odd").collect()
        assert [seen[name] for name in NAMES] == [expected[0][name] for name in NAMES]
        assert [list(each) for each in seen["inside"]] == [list(range(KIND.num_fields))]
        # Spark calls such columns differently in its files, but after compaction it is the same table.
        world.append("odd", batch.slice(0, 1))
        world.seal("odd")
        world.move("odd")
        given = "table => 'frazil.frazil.odd', options => map('rewrite-all', 'true')"
        spark.sql(f"CALL frazil.system.rewrite_data_files({given})")
        found = frazil.read("odd", config=world.config).table().select(SCHEMA.names).to_pylist()
        assert sorted(found, key=lambda each: each["é"]) == [expected[0], *expected]
