"""Tests that our reader of data files gives what PyIceberg gives, also after the columns of a table have changed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from frazil.errors import TableDamaged
from frazil.lake.schema.arrow import arrow_schema
from frazil.scan.planning.remembered_table import RememberedTable
from frazil.scan.predicates.tree import Column, Comparison
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.selection.row_filter import RowFilter
from frazil.scan.selection.row_reader import RowReader
from frazil.scan.selection.tally import Tally
from frazil.scan.selection.time_column import LEAST, MOST
from frazil.scan.table import units
from frazil.scan.table.data_files import DataFiles, TableFile
from frazil.scan.table.units import TableReading

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "amount", IntegerType()),
    NestedField(3, "ratio", DoubleType()),
    NestedField(4, "price", DecimalType(9, 2)),
    NestedField(5, "text", StringType()),
    NestedField(6, "inner", StructType(NestedField(7, "a", IntegerType()), NestedField(8, "b", StringType()))),
    NestedField(9, "many", ListType(10, StructType(NestedField(11, "c", StringType())), element_required=False)),
    NestedField(12, "labels", MapType(13, StringType(), 14, StringType(), value_required=False)),
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    return catalog.create_table("n.t", SCHEMA)


def append(table: Table, rows: list[dict[str, object]]) -> None:
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))


def first_rows() -> list[dict[str, object]]:
    return [
        {
            "id": at,
            "amount": at * 3 if at % 4 else None,
            "ratio": at / 7,
            "price": Decimal(at).scaleb(-2),
            "text": f"text {at}" if at % 3 else None,
            "inner": {"a": at, "b": "x"} if at % 5 else None,
            "many": [{"c": "y"}] * (at % 3) if at % 7 else None,
            "labels": [("k", f"v{at}")] if at % 2 else None,
        }
        for at in range(200)
    ]


def reading(table: Table, where: Comparison | None = None) -> TableReading:
    schema = arrow_schema(table.schema()).remove_metadata()
    wanted = RowFilter(None, None, where, ("id",) if where is not None else ())
    files = DataFiles(table, table.schema(), BoundedCache(1 << 20))
    reader = RowReader(schema, tuple(schema.names), wanted)
    return TableReading(files, reader, None, BoundedCache(1 << 20), Tally(), (), 0)


def files_of(table: Table) -> list[TableFile]:
    index = RememberedTable(lambda: table, lambda: None).files(table).index
    return [TableFile(index.data_file(at), (), ()) for at in range(len(index))]


def everything(table: Table) -> pa.Table:
    found = reading(table)
    groups = [group for file in files_of(table) for group in found.row_groups(file, (LEAST, MOST))]
    streamed = pa.Table.from_batches([batch for group in groups for batch in group.batches()], found.reader.schema)
    alone = pa.Table.from_batches([unit.read() for group in groups for unit in group.units()], found.reader.schema)
    assert alone.equals(streamed)
    return streamed.sort_by("id")


def check(table: Table) -> None:
    ours = everything(table)
    theirs = table.scan().to_arrow().sort_by("id")
    assert ours.to_pylist() == theirs.to_pylist()
    assert ours.schema.names == theirs.schema.names


def test_columns_are_read_as_the_table_has_them_now(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "UNIT_ROWS", 64)
    append(table, first_rows())
    check(table)
    with table.update_schema() as change:
        change.update_column("amount", LongType())
        change.update_column("price", DecimalType(20, 2))
        change.rename_column("text", "note")
        change.add_column("new", StringType())
    check(table)
    with table.update_schema() as change:
        change.rename_column("inner.b", "renamed")
        change.add_column(("inner", "added"), IntegerType())
        change.add_column(("many", "element", "d"), StringType())
        change.delete_column("ratio")
    check(table)
    with table.update_schema() as change:
        change.add_column("ratio", StringType())
    append(table, [{"id": 1000 + at, "amount": 2**40 + at, "ratio": "text", "new": "n"} for at in range(10)])
    check(table)


def test_deleted_rows_are_left_out(table: Table, tmp_path: Path) -> None:
    append(table, first_rows())
    (file,) = files_of(table)
    positions = [0, 5, 63, 64, 199]
    deletes = pa.table(
        {"file_path": [file.path] * len(positions), "pos": pa.array(positions, pa.int64())},
        schema=pa.schema(
            [
                pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
            ]
        ),
    )
    path = tmp_path / "deletes.parquet"
    pq.write_table(deletes, path)
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        record_count=len(positions),
        file_size_in_bytes=path.stat().st_size,
    )
    deleted = TableFile(file.file, (entry,), ())
    assert deleted.key != file.key
    for where in (None, Comparison(Column("id"), "<", 70)):
        found = reading(table, where)
        (group,) = found.row_groups(deleted, (LEAST, MOST))
        expected = [at for at in range(200 if where is None else 70) if at not in positions]
        streamed = [each for batch in group.batches() for each in batch.column("id").to_pylist()]
        alone = [each for unit in group.units() for each in unit.read(("id",)).column("id").to_pylist()]
        assert streamed == alone == expected
        unfiltered = [unit.read(("id",), filtered=False).num_rows for unit in group.units()]
        assert sum(unfiltered) == 200 - len(positions)


def test_another_file_in_its_place_is_damage(table: Table) -> None:
    append(table, first_rows())
    (file,) = files_of(table)
    path = file.path.removeprefix("file://")
    pq.write_table(pq.read_table(path).slice(0, 10), path)
    with pytest.raises(TableDamaged, match="10 rows, and 200 were written"):
        reading(table).row_groups(file, (LEAST, MOST))
