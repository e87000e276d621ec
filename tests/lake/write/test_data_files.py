"""Tests that data files have the rows they were given, can be read by every reader, and have the right metrics."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, StructType

from frazil.errors import ConfigError, FileUpload, ParquetWrite, TableSchemaMismatch
from frazil.lake.catalog.durable_io import DurableFileIO
from frazil.lake.mapping.mapper import MappedBatch, Mapper
from frazil.lake.mapping.misfits import Misfits, dead_letter_batch
from frazil.lake.schema.table_schema import base_table_schema, dead_letter_schema
from frazil.lake.write.data_file_codec import decode_data_file as arrived
from frazil.lake.write.data_file_codec import encode_data_file as sent
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from tests.examples import examples
from tests.lake.random_topics import batches, comparable, with_dictionaries

_IO = DurableFileIO()
_names = itertools.count()


class Warehouse:
    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("tests", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("n")

    def table(
        self,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        order: SortOrder = UNSORTED_SORT_ORDER,
        **properties: str,
    ) -> Table:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        return self.catalog.create_table(f"n.t{next(_names)}", schema, None, spec, order, named)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    warehouse = Warehouse(tmp_path_factory.mktemp("warehouse"))
    yield warehouse
    warehouse.catalog.close()


class Written(NamedTuple):
    files: list[DataFile]
    misfits: list[Misfits]
    rows: int
    bytes: int


def write_batches(
    io: FileIO,
    metadata: TableMetadata,
    folder: str,
    task: int,
    batches: Iterator[MappedBatch],
    gather_bytes: int = 2**28,
) -> Written:
    """Writes all rows that fit, as a task does."""
    misfits: list[Misfits] = []
    with DataFileWriter(io, metadata, folder, task, gather_bytes) as writer:
        for mapped in batches:
            writer.write(mapped.batch)
            misfits += [mapped.misfits] if mapped.misfits else []
        files = writer.close()
    rows = sum(file.record_count for file in files)
    return Written(files, misfits, rows, sum(file.file_size_in_bytes for file in files))


def _write(table: Table, rows: Sequence[pa.RecordBatch], task: int = 0, gather_bytes: int = 2**28) -> Written:
    mapper = Mapper(rows[0].schema, table.schema())
    offsets = itertools.accumulate((len(batch) for batch in rows), initial=0)
    mapped = (mapper.map(batch, 0, offset) for batch, offset in zip(rows, offsets, strict=False))
    return write_batches(_IO, table.metadata, f"{table.location()}/data/attempt", task, mapped, gather_bytes)


def _append(table: Table, files: Sequence[DataFile]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(arrived(sent(file)))


def _paths(files: Sequence[DataFile]) -> list[str]:
    return [file.file_path.removeprefix("file://") for file in files]


def _spec(schema: Schema, **fields: Transform[Any, Any]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(schema.find_field(name).field_id, 1000 + i, transform, f"{name}_part")
            for i, (name, transform) in enumerate(fields.items())
        )
    )


def _order(schema: Schema, *names: str, direction: SortDirection = SortDirection.ASC) -> SortOrder:
    return SortOrder(
        *(
            SortField(schema.find_field(name).field_id, IdentityTransform(), direction, NullOrder.NULLS_FIRST)
            for name in names
        )
    )


@settings(max_examples=examples(60), deadline=None)
@given(rows=batches(), data=st.data())
def test_every_reader_reads_the_rows_that_were_written(
    warehouse: Warehouse, rows: pa.RecordBatch, data: st.DataObject
) -> None:
    schema = base_table_schema(rows.schema)
    simple = [field for field in schema.fields if field.field_type.is_primitive]
    chosen = data.draw(st.lists(st.sampled_from(simple), max_size=2, unique=True))
    transforms: list[Transform[Any, Any]] = [
        IdentityTransform(),
        BucketTransform(3),
        TruncateTransform(2),
        DayTransform(),
    ]
    fields: list[PartitionField] = []
    for field in chosen:
        able = [transform for transform in transforms if transform.can_transform(field.field_type)]
        # PyIceberg cannot store a void partition field of a required column.
        able += [VoidTransform()] if field.optional else []
        transform = data.draw(st.sampled_from(able))
        fields.append(PartitionField(field.field_id, 1000 + len(fields), transform, f"part{len(fields)}"))
    keys = data.draw(st.lists(st.sampled_from(simple), max_size=2, unique=True))
    order = SortOrder(*(SortField(key.field_id, IdentityTransform(), SortDirection.DESC) for key in keys))
    table = warehouse.table(schema, PartitionSpec(*fields), order if keys else UNSORTED_SORT_ORDER)

    halves = [rows.slice(0, len(rows) // 2), rows.slice(len(rows) // 2)]
    encoded = data.draw(st.tuples(st.booleans(), st.booleans()))
    given = [
        with_dictionaries(half) if chosen and len(half) else half
        for half, chosen in zip(halves, encoded, strict=True)
    ]
    written = _write(table, given)
    assert not written.misfits
    assert written.rows == len(rows)
    _append(table, written.files)

    mapped = pa.Table.from_batches([Mapper(rows.schema, schema).map(rows, 0, 0).batch])
    expected = _sorted_rows(mapped)
    readable = [field.name for field in mapped.schema if not _misread(field.type)]
    assert _sorted_rows(table.scan().to_arrow().select(readable)) == _sorted_rows(mapped.select(readable))
    assert _sorted_rows(pl.read_parquet(_paths(written.files)).to_arrow()) == expected
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.read_parquet(_paths(written.files)).to_arrow_table()
    assert _sorted_rows(found) == expected
    assert table.inspect.files().num_rows == len(written.files)
    for file in written.files:
        _check_metrics(schema, file, pq.read_table(_paths([file])[0]))


def _misread(kind: pa.DataType) -> bool:
    """PyIceberg reads a null list or map of structs as an empty one, also from files that it wrote itself."""
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
    repeated = pa.types.is_list(kind) or pa.types.is_map(kind)
    return any((repeated and pa.types.is_struct(part)) or _misread(part) for part in inner)


def _sorted_rows(table: pa.Table) -> list[Any]:
    """Returns the rows as Python values by offset.

    Types of fixed-size binaries and time zones depend on the reader.
    """
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type) and column.type.tz:
            column = column.cast(pa.timestamp("us", "UTC"))
        columns.append(column)
    plain = pa.table(columns, table.column_names)
    return [comparable(row) for row in plain.sort_by(OFFSET).to_pylist()]


def _check_metrics(schema: Schema, file: DataFile, rows: pa.Table) -> None:
    assert file.record_count == len(rows)
    for field in schema.fields:
        if not field.field_type.is_primitive:
            continue
        column = rows.column(field.name)
        assert file.value_counts[field.field_id] == len(rows)
        assert file.null_value_counts[field.field_id] == column.null_count
        values = column.drop_null()
        if pa.types.is_floating(column.type):
            assert file.nan_value_counts[field.field_id] == (pc.sum(pc.is_nan(values)).as_py() or 0)
            values = values.filter(pc.invert(pc.is_nan(values)))
        low, high = file.lower_bounds.get(field.field_id), file.upper_bounds.get(field.field_id)
        if not len(values):
            assert low is None
            assert high is None
            continue
        assert low is not None
        plain = _comparable_values(values)
        assert all(_given(field.field_type, low) <= value for value in plain)
        if high is None:
            # Only values that cannot be incremented lack an upper bound: text of the last character, or bytes of
            # 0xFF.
            assert max(plain).startswith((b"\xff" * 16, ("\U0010ffff" * 16).encode()))
        else:
            assert all(_given(field.field_type, high) >= value for value in plain)


def _comparable_values(values: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return [value.encode() if isinstance(value, str) else value for value in values.to_pylist()]


def _given(kind: Any, bound: bytes) -> Any:
    value = from_bytes(kind, bound)
    return value.encode() if isinstance(value, str) else value


_LOGS = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("service", pa.string()),
        ("level", pa.int32()),
        ("load", pa.float64()),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)
_DAY = 86_400_000_000


def _logs(count: int, days: int = 3) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "time": [i * 7_919_000_017 % (days * _DAY) for i in range(count)],
            "service": [f"service-{i % 7}" for i in range(count)],
            "level": [None if i % 11 == 0 else i % 5 for i in range(count)],
            "load": [math.nan if i % 13 == 0 else i / 3 for i in range(count)],
            "tags": [[("a", str(i)), ("b", "x")] for i in range(count)],
        },
        _LOGS,
    )


def _moment(day: int) -> str:
    return (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=day)).isoformat()


def test_scans_open_only_the_files_of_the_partitions_they_need(warehouse: Warehouse) -> None:
    schema = base_table_schema(_LOGS)
    table = warehouse.table(schema, _spec(schema, time=DayTransform()), _order(schema, "service", "time"))
    written = _write(table, [_logs(500), _logs(500)])
    _append(table, written.files)
    assert [file.partition[0] for file in written.files] == [0, 1, 2]
    one_day = f"time >= '{_moment(1)}' and time < '{_moment(2)}'"
    (task,) = table.scan(row_filter=one_day).plan_files()
    assert task.file == written.files[1]
    for file, path in zip(written.files, _paths(written.files), strict=True):
        assert file.sort_order_id == table.metadata.default_sort_order_id
        rows = pq.read_table(path).select(["service", "time", OFFSET])
        assert rows.equals(rows.sort_by([(name, "ascending") for name in rows.column_names]))


def test_scans_open_only_the_files_whose_bounds_fit(warehouse: Warehouse) -> None:
    table = warehouse.table(base_table_schema(_LOGS))
    tasks = [_write(table, [_logs(100)], task=0), _write(table, [_logs(100)], task=1)]
    names = pa.array([f"ünusual-and-long-name-{i}" for i in range(3)])
    other = pa.RecordBatch.from_pydict(
        {"service": names, "level": pa.array([7, 8, 9])}, pa.schema([("service", pa.string()), ("level", pa.int32())])
    )
    tasks.append(_write(table, [other], task=2))
    _append(table, [file for task in tasks for file in task.files])
    planned = {task.file.file_path for task in table.scan(row_filter="level = 8").plan_files()}
    assert planned == {tasks[2].files[0].file_path}
    wanted = "service = 'ünusual-and-long-name-1'"
    assert {task.file.file_path for task in table.scan(row_filter=wanted).plan_files()} == planned
    assert table.scan(row_filter=wanted).to_arrow().num_rows == 1
    assert {task.file.file_path for task in table.scan(row_filter="time is null").plan_files()} == planned


def test_rows_without_a_sort_order_stay_as_they_came(warehouse: Warehouse) -> None:
    schema = base_table_schema(_LOGS)
    for spec in (UNPARTITIONED_PARTITION_SPEC, _spec(schema, level=IdentityTransform())):
        table = warehouse.table(schema, spec)
        for path in _paths(_write(table, [_logs(300), _logs(300)]).files):
            offsets = pq.read_table(path).column(OFFSET).to_pylist()
            assert offsets == sorted(offsets)


@pytest.mark.parametrize("ordered", [False, True])
def test_rows_with_dictionaries_and_without_are_in_one_file(warehouse: Warehouse, ordered: bool) -> None:
    schema = base_table_schema(_LOGS)
    order = _order(schema, OFFSET) if ordered else UNSORTED_SORT_ORDER
    table = warehouse.table(schema, UNPARTITIONED_PARTITION_SPEC, order, **{"write_parquet_row-group-limit": "10"})
    plain = [_logs(10), _logs(20), _logs(15)]
    (file,) = _write(table, [with_dictionaries(plain[0]), plain[1], with_dictionaries(plain[2])]).files
    (path,) = _paths([file])
    found = pq.read_table(path).sort_by(OFFSET)
    assert pq.read_metadata(path).num_row_groups > 2
    rows = pa.Table.from_batches(plain).drop_columns(["load"])
    assert found.select(rows.column_names).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("ordered", [False, True])
def test_a_text_may_be_required_in_a_struct_that_is_null(warehouse: Warehouse, ordered: bool) -> None:
    inner = StructType(NestedField(2, "text", StringType(), required=True))
    schema = Schema(NestedField(1, "part", inner, required=False), NestedField(3, OFFSET, LongType(), required=True))
    order = _order(schema, OFFSET) if ordered else UNSORTED_SORT_ORDER
    rows = pa.record_batch({"part": pa.array([{"text": "a"}, None])})
    (file,) = _write(warehouse.table(schema, UNPARTITIONED_PARTITION_SPEC, order), [with_dictionaries(rows)]).files
    assert pq.read_table(_paths([file])[0])["part"].to_pylist() == [{"text": "a"}, None]


@pytest.mark.parametrize("encoded", [False, True])
def test_bounds_are_those_of_the_rows_of_each_partition(warehouse: Warehouse, encoded: bool) -> None:
    rows = pa.record_batch({"day": pa.array(["mon", "mon", "tue"]), "note": pa.array(["a", None, "z"])})
    schema = base_table_schema(rows.schema)
    table = warehouse.table(schema, _spec(schema, day=IdentityTransform()))
    for file in _write(table, [with_dictionaries(rows) if encoded else rows]).files:
        _check_metrics(schema, file, found := pq.read_table(_paths([file])[0]))
        upper = file.upper_bounds[schema.find_field("note").field_id]
        assert upper.decode() == max(filter(None, found["note"].to_pylist()))


def test_thousands_of_partitions_are_written_one_after_the_other(warehouse: Warehouse) -> None:
    schema = base_table_schema(pa.schema([("key", pa.int64())]))
    table = warehouse.table(schema, _spec(schema, key=IdentityTransform()))
    count = 2_000
    keys = pa.RecordBatch.from_pydict({"key": pa.array([i * 7 % count for i in range(2 * count)])})
    folder = Path("/proc/self/fd")
    most = 0

    class Watched(PyArrowFileIO):
        def new_output(self, location: str) -> Any:
            nonlocal most
            most = max(most, len(list(folder.iterdir())))
            return super().new_output(location)

    before = len(list(folder.iterdir()))
    mapped = Mapper(keys.schema, schema).map(keys, 0, 0)
    written = write_batches(Watched(), table.metadata, f"{table.location()}/data/many", 0, iter([mapped]))
    assert len(written.files) == count
    assert {file.partition[0] for file in written.files} == set(range(count))
    assert all(file.record_count == 2 for file in written.files)
    assert most <= before + 5


def test_files_end_at_the_size_the_table_wants(warehouse: Warehouse) -> None:
    properties = {
        "write.target-file-size-bytes": "20000",
        "write.parquet.row-group-limit": "500",
        "write.parquet.compression-codec": "uncompressed",
    }
    schema = base_table_schema(_LOGS)
    for order in (UNSORTED_SORT_ORDER, _order(schema, "level")):
        table = warehouse.catalog.create_table(
            f"n.t{next(_names)}", schema, None, UNPARTITIONED_PARTITION_SPEC, order, properties
        )
        files = _write(table, [_logs(1_000) for _ in range(5)]).files
        assert len(files) > 2
        assert [Path(path).name for path in _paths(files)] == [f"00000-{i:05d}.parquet" for i in range(len(files))]
        assert sum(file.record_count for file in files) == 5_000
        for file, path in zip(files, _paths(files), strict=True):
            assert file.file_size_in_bytes == Path(path).stat().st_size < 80_000
            assert len(file.split_offsets or ()) == pq.read_metadata(path).num_row_groups


def test_row_groups_are_equal_but_for_the_last(warehouse: Warehouse) -> None:
    """Each batch has the whole dictionary, which must not make two row groups of one."""
    rows = with_dictionaries(pa.record_batch({"text": pa.array([f"{i % 100:0100d}" for i in range(4_000)])}))
    schema = base_table_schema(rows.schema)
    limit = {"write_parquet_row-group-size-bytes": str(rows.nbytes // 4)}
    table = warehouse.table(schema, UNPARTITIONED_PARTITION_SPEC, _order(schema, "text"), **limit)
    (path,) = _paths(_write(table, [rows]).files)
    footer = pq.read_metadata(path)
    *full, rest = (footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    assert len(set(full)) == 1
    assert rest <= full[0]


def test_sorted_rows_beyond_the_limit_are_sorted_in_parts(warehouse: Warehouse) -> None:
    schema = base_table_schema(_LOGS)
    table = warehouse.table(schema, order=_order(schema, "level", direction=SortDirection.DESC))
    files = _write(table, [_logs(200) for _ in range(10)], gather_bytes=_logs(500).nbytes).files
    assert 1 < len(files) < 10
    for path in _paths(files):
        levels = pq.read_table(path).column("level").to_pylist()
        nulls = levels.count(None)
        assert levels[:nulls] == [None] * nulls
        assert levels[nulls:] == sorted(levels[nulls:], reverse=True)


@pytest.mark.parametrize(
    ("codec", "level", "stored"),
    [
        ("zstd", "7", "ZSTD"),
        ("snappy", "7", "SNAPPY"),
        ("lz4", None, "LZ4"),
        ("gzip", "2", "GZIP"),
        ("uncompressed", None, "UNCOMPRESSED"),
    ],
)
def test_files_are_compressed_as_the_table_says(
    warehouse: Warehouse, codec: str, level: str | None, stored: str
) -> None:
    properties = {"write.parquet.compression-codec": codec}
    if level is not None:
        properties["write.parquet.compression-level"] = level
    table = warehouse.catalog.create_table(f"n.t{next(_names)}", base_table_schema(_LOGS), properties=properties)
    (path,) = _paths(_write(table, [_logs(100)]).files)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    assert chunk.compression == stored
    assert chunk.has_offset_index
    assert chunk.has_column_index


def test_values_that_repeat_have_a_dictionary_and_others_none(warehouse: Warehouse) -> None:
    table = warehouse.table(base_table_schema(_LOGS))
    (path,) = _paths(_write(table, [_logs(1_000)]).files)
    group = pq.read_metadata(path).row_group(0)
    coded = {group.column(i).path_in_schema: group.column(i).has_dictionary_page for i in range(group.num_columns)}
    assert coded == {
        "time": False,
        "service": True,
        "level": True,
        "load": False,
        "tags.key_value.key": True,
        "tags.key_value.value": True,
        PARTITION: True,
        OFFSET: False,
    }


def test_a_property_that_makes_no_sense_is_named(warehouse: Warehouse) -> None:
    for name in (
        "write.parquet.compression-codec",
        "write.parquet.row-group-limit",
        "write.metadata.metrics.default",
    ):
        table = warehouse.catalog.create_table(
            f"n.t{next(_names)}", base_table_schema(_LOGS), properties={name: "much"}
        )
        with pytest.raises(ConfigError, match=name):
            _write(table, [_logs(1)])


@pytest.mark.parametrize(
    ("mode", "counted", "low", "high"),
    [
        ("none", False, None, None),
        ("counts", True, None, None),
        ("truncate(3)", True, b"abc", b"xy{"),
        ("full", True, b"abcdef", b"xyzz"),
    ],
)
def test_metrics_are_kept_as_the_table_says(
    warehouse: Warehouse, mode: str, counted: bool, low: bytes | None, high: bytes | None
) -> None:
    rows = pa.record_batch([pa.array(["abcdef", "xyzz", None]), pa.array([1, 2, 3])], ["text", "number"])
    properties = {"write.metadata.metrics.default": mode, "write.metadata.metrics.column.number": "full"}
    table = warehouse.catalog.create_table(
        f"n.t{next(_names)}", base_table_schema(rows.schema), properties=properties
    )
    (file,) = _write(table, [rows]).files
    text, number = (table.schema().find_field(name).field_id for name in ("text", "number"))
    assert (text in file.value_counts) is counted
    assert file.lower_bounds.get(text) == low
    assert file.upper_bounds.get(text) == high
    assert file.upper_bounds[number] == (3).to_bytes(8, "little")


def test_bounds_that_parquet_left_out_of_one_row_group_are_left_out_of_the_file(warehouse: Warehouse) -> None:
    """Parquet drops the bounds of very long values. The bounds of other row groups would hide the long value."""
    properties = {"write.parquet.row-group-limit": "1"}
    rows = pa.record_batch([pa.array(["m", "z" * 10_000, None])], ["text"])
    table = warehouse.catalog.create_table(
        f"n.t{next(_names)}", base_table_schema(rows.schema), properties=properties
    )
    written = _write(table, [rows])
    _append(table, written.files)
    assert table.scan(row_filter=f"text = '{'z' * 10_000}'").to_arrow().num_rows == 1


def test_a_writer_that_gives_up_leaves_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    schema = base_table_schema(_LOGS)
    table = warehouse.table(schema, _spec(schema, level=IdentityTransform()))
    mapper = Mapper(_LOGS, schema)

    def broken() -> Iterator[MappedBatch]:
        yield mapper.map(_logs(100), 0, 0)
        yield mapper.map(_logs(100), 0, 100)
        raise TableSchemaMismatch("enough")

    with pytest.raises(TableSchemaMismatch, match="enough"):
        write_batches(_IO, table.metadata, f"file://{tmp_path}/given-up", 0, broken(), gather_bytes=1)
    assert list((tmp_path / "given-up").iterdir()) == []


@pytest.mark.parametrize("error", [pa.ArrowInvalid("a cast"), OSError("a read")])
def test_errors_of_others_are_not_ours(warehouse: Warehouse, tmp_path: Path, error: Exception) -> None:
    table = warehouse.table(base_table_schema(_LOGS))

    def broken() -> Iterator[MappedBatch]:
        yield Mapper(_LOGS, table.schema()).map(_logs(10), 0, 0)
        raise error

    with pytest.raises(type(error), match=str(error)) as caught:
        write_batches(_IO, table.metadata, f"file://{tmp_path}/given-up", 0, broken(), gather_bytes=1)
    assert caught.value is error


def test_a_file_of_somebody_else_is_not_overwritten(warehouse: Warehouse) -> None:
    table = warehouse.table(base_table_schema(_LOGS))
    (first,) = _write(table, [_logs(10)]).files
    with pytest.raises(ParquetWrite, match="is there already"):
        _write(table, [_logs(20)])
    assert pq.read_metadata(_paths([first])[0]).num_rows == 10


def test_storage_that_fails_is_said_so(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.table(base_table_schema(_LOGS))
    mapped = Mapper(_LOGS, table.schema()).map(_logs(10), 0, 0)
    with pytest.raises(FileUpload, match="could not be stored"):
        write_batches(_IO, table.metadata, f"file://{tmp_path}/{'long' * 100}", 0, iter([mapped]))


def test_no_rows_no_files(warehouse: Warehouse) -> None:
    table = warehouse.table(base_table_schema(_LOGS))
    assert _write(table, [_logs(10).slice(0, 0)]) == Written([], [], 0, 0)


def test_dead_letters_are_rows_of_their_table(warehouse: Warehouse) -> None:
    raw = pa.array([b"fine", b"\xff"], pa.binary())
    broken = pa.record_batch([pa.Array.from_buffers(pa.string(), 2, raw.buffers())], ["text"])
    mapped = Mapper(broken.schema, base_table_schema(broken.schema)).map(broken, 4, 100)
    assert mapped.misfits is not None
    table = warehouse.table(dead_letter_schema())
    writer = DataFileWriter(_IO, table.metadata, f"{table.location()}/data/a", 0)
    writer.write(dead_letter_batch(mapped.misfits, "orders", 4, 2, 1_700_000_000_123))
    _append(table, writer.close())
    (row,) = table.scan().to_arrow().to_pylist()
    assert (row["topic"], row["schema_version"], row[PARTITION], row[OFFSET]) == ("orders", 2, 4, 101)
    assert row["failed_at"] == datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, datetime.UTC)
    assert "UTF8" in row["error"]


def test_parts_of_structs_have_bounds_too(warehouse: Warehouse) -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.float64())])
    rows = pa.record_batch([pa.array([{"x": 5, "y": math.nan}, {"x": 9, "y": 1.0}, None], inner)], ["inner"])
    table = warehouse.table(base_table_schema(rows.schema))
    written = _write(table, [rows])
    _append(table, written.files)
    x, y = (table.schema().find_field(f"inner.{name}").field_id for name in "xy")
    assert written.files[0].lower_bounds[x] == (5).to_bytes(8, "little")
    assert written.files[0].nan_value_counts == {y: 1}
    assert list(table.scan(row_filter="inner.x = 4").plan_files()) == []
    assert len(list(table.scan(row_filter="inner.x = 9").plan_files())) == 1
