"""Tests that rows of a topic become rows of its table, or misfits."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType, UUIDType

from frazil.errors import TableSchemaMismatch
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.mapping.misfits import row_from_ipc, without_offsets
from frazil.lake.schema.table_schema import base_table_schema
from frazil.log.schema.columns import OFFSET, PARTITION
from tests.examples import examples
from tests.lake.random_topics import batches, comparable


def _broken_text(values: list[bytes | None]) -> pa.Array:
    """Makes strings that may not be UTF-8."""
    array = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count)


def _batch(schema: pa.Schema | None = None, **columns: Any) -> pa.RecordBatch:
    arrays = [value if isinstance(value, pa.Array) else pa.array(value) for value in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if schema else pa.record_batch(arrays, list(columns))


def test_each_type_becomes_the_tables() -> None:
    moment = pa.array([-1, 1_500, None], pa.int64())
    batch = _batch(
        small=pa.array([1, -1, None], pa.int8()),
        large=pa.array([2**64 - 1, 0, None], pa.uint64()),
        half=pa.array([1.5, None, 0.0], pa.float16()),
        day=pa.array([86_400_000, None, -86_400_000], pa.int64()).view(pa.date64()),
        at=moment.view(pa.timestamp("ns", "Europe/Berlin")),
        clock=pa.array([1, None, 2], pa.time32("s")),
        span=pa.array([-5, None, 2], pa.int64()).view(pa.duration("ms")),
        inner=pa.array([{"at": 7}, None, {"at": None}], pa.struct([("at", pa.timestamp("ns"))])),
        nothing=pa.nulls(3),
    )
    mapped = Mapper(batch.schema, base_table_schema(batch.schema)).map(batch, 3, 40)
    assert mapped.misfits is None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    microsecond = datetime.timedelta(microseconds=1)
    assert mapped.batch.to_pydict() == {
        "small": [1, -1, None],
        "large": [Decimal(2**64 - 1), Decimal(0), None],
        "half": [1.5, None, 0.0],
        "day": [datetime.date(1970, 1, 2), None, datetime.date(1969, 12, 31)],
        "at": [epoch - microsecond, epoch + microsecond, None],
        "at_ns": [999, 500, None],
        "clock": [1, None, 2],
        "span": [-5, None, 2],
        "inner": [{"at": 7}, None, {"at": None}],
        PARTITION: [3, 3, 3],
        OFFSET: [40, 41, 42],
    }
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in mapped.batch.schema]
    assert ids == [field.field_id for field in base_table_schema(batch.schema).fields]


def test_columns_that_agree_are_not_copied() -> None:
    batch = _batch(
        text=["a", "é"], number=pa.array([1, 2]), tags=pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))
    )
    mapped = Mapper(batch.schema, base_table_schema(batch.schema)).map(batch, 0, 0).batch
    for name in ("text", "number"):
        assert mapped.column(name).buffers()[-1].address == batch.column(name).buffers()[-1].address
    assert mapped.column("tags").items.buffers()[1].address == batch.column("tags").items.buffers()[1].address


def test_batches_of_older_versions_lack_columns_and_are_narrower() -> None:
    old = _batch(number=pa.array([1, 2], pa.int16()), inner=pa.array([{"a": 1}, None]))
    new = pa.schema(
        [
            ("number", pa.int64()),
            ("inner", pa.struct([("b", pa.string()), ("a", pa.int64())])),
            ("at", pa.timestamp("ns")),
        ]
    )
    mapped = Mapper(new, base_table_schema(new)).map(old, 0, 5).batch
    assert mapped.drop_columns([PARTITION, OFFSET]).to_pylist() == [
        {"number": 1, "inner": {"b": None, "a": 1}, "at": None, "at_ns": None},
        {"number": 2, "inner": None, "at": None, "at_ns": None},
    ]


_MAP = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("column", "bad", "reason"),
    [
        (_broken_text([b"ok", b"\xff\xfe", None, b"\xc3", "é".encode()]), [1, 3], "UTF8"),
        (_broken_text([b"x" * 40, b"\xff" * 50, b"y" * 40]), [1], "UTF8"),
        # Together the two parts would be a character.
        (_broken_text([b"a\xc3", b"\xa9b", b"c"]), [0, 1], "UTF8"),
        (pa.array([0, 2**60, None, -(2**60)], pa.int64()).view(pa.timestamp("ms")), [1, 3], "out of bounds"),
        (
            pa.Array.from_buffers(
                pa.decimal128(5), 2, pa.array([Decimal(1), Decimal(10**6)], pa.decimal128(9)).buffers()
            ),
            [1],
            "precision",
        ),
        (pa.array([[("a", 1)], [("b", 1), ("a", 2), ("b", 3)], None, [("b", 1), ("a", 1)]], _MAP), [1], "twice"),
        (pa.array([0, 86_400_001], pa.int64()).view(pa.date64()), [1], "whole number of days"),
        (pa.ListArray.from_arrays([0, 2, 3], _broken_text([b"a", b"\xff", b"b"])), [0], "UTF8"),
    ],
    ids=["text", "long text", "split text", "timestamp", "decimal", "same key", "date", "list"],
)
def test_rows_that_do_not_fit_are_set_aside(column: pa.Array, bad: list[int], reason: str) -> None:
    # The batch is a slice, and values outside of it must not matter.
    batch = pa.record_batch([column, pa.arange(0, len(column))], ["value", "id"])
    for start in range(2):
        part = batch.slice(start)
        wrong = [place for place in bad if place >= start]
        mapped = Mapper(batch.schema, base_table_schema(batch.schema)).map(part, 1, 100 + start)
        assert mapped.batch.column("id").to_pylist() == [i for i in range(start, len(batch)) if i not in wrong]
        assert mapped.batch.column(OFFSET).to_pylist() == [
            100 + i for i in range(start, len(batch)) if i not in wrong
        ]
        if not wrong:
            assert mapped.misfits is None
            continue
        assert mapped.misfits is not None
        rows = mapped.misfits.rows.to_pylist()
        assert [row[OFFSET] for row in rows] == [100 + place for place in wrong]
        for row, place in zip(rows, wrong, strict=True):
            assert reason in row["error"]
            assert "'value'" in row["error"]
            assert row_from_ipc(row["raw"]).schema == batch.schema
            assert _bytes_of(row_from_ipc(row["raw"])) == _bytes_of(batch.slice(place, 1))


def _bytes_of(row: pa.RecordBatch) -> bytes:
    """Returns a complete row as bytes, because invalid values cannot be compared as Python values."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    return bytes(sink.getvalue())


def test_a_column_that_the_table_requires_must_have_values() -> None:
    inner = StructType(NestedField(3, "x", LongType(), required=True))
    table = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "who", inner, required=False), schema_id=0
    )
    batch = _batch(id=[1, None, 3, 4], who=pa.array([{"x": 1}, {"x": 2}, {"x": None}, None]))
    mapped = Mapper(batch.schema, table).map(batch, 0, 0)
    assert mapped.batch.column("id").to_pylist() == [1, 4]
    assert mapped.misfits is not None
    assert mapped.misfits.rows.column(OFFSET).to_pylist() == [1, 2]


def test_a_topic_that_cannot_fit_is_refused_with_every_column_named() -> None:
    table = Schema(
        NestedField(1, "number", IntegerType(), required=False),
        NestedField(2, "text", StringType(), required=False),
        NestedField(3, "id", UUIDType(), required=False),
        NestedField(4, "must", LongType(), required=True),
    )
    topic = pa.schema([("number", pa.int64()), ("text", pa.int32()), ("id", pa.string()), ("more", pa.int32())])
    with pytest.raises(TableSchemaMismatch) as caught:
        Mapper(topic, table)
    for name in ("number", "text", "id", "must", "more"):
        assert repr(name) in str(caught.value)


def test_with_dead_letters_each_value_is_tried() -> None:
    table = Schema(
        NestedField(1, "number", IntegerType(), required=False), NestedField(2, "list", StringType(), required=False)
    )
    topic = pa.schema([("number", pa.string()), ("list", pa.list_(pa.int32())), ("more", pa.int32())])
    batch = pa.RecordBatch.from_pydict(
        {
            "number": ["1", "two", "3", "4", None],
            "list": [None, None, [1], None, None],
            "more": [None, None, None, 1, None],
        },
        topic,
    )
    mapped = Mapper(topic, table, "dead-letter").map(batch, 0, 10)
    assert mapped.batch.to_pydict() == {"number": [1, None], "list": [None, None]}
    assert mapped.misfits is not None
    rows = mapped.misfits.rows.to_pylist()
    assert [row[OFFSET] for row in rows] == [11, 12, 13]
    assert "'two'" in rows[0]["error"]
    assert "'more'" in rows[2]["error"]
    assert [row_from_ipc(row["raw"]).to_pylist()[0] for row in rows] == batch.slice(1, 3).to_pylist()


@settings(max_examples=examples(150), deadline=None)
@given(batches(), st.data())
def test_good_and_bad_rows_are_all_rows_in_order(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """One column has strings of which some are invalid, among columns of every kind."""
    chosen = data.draw(st.sets(st.integers(0, len(batch) - 1)))
    texts = _broken_text([b"\xff" if i in chosen else b"fine" for i in range(len(batch))])
    schema = batch.schema.append(pa.field("t", pa.string()))
    batch = pa.RecordBatch.from_arrays([*batch.columns, texts], schema=schema)
    encoded = data.draw(st.booleans())
    if encoded:
        batch = batch.set_column(len(batch.columns) - 1, "t", texts.dictionary_encode())
    mapped = Mapper(batch.schema, base_table_schema(schema)).map(batch, 0, 1000)
    good = mapped.batch.column(OFFSET).to_pylist()
    bad = mapped.misfits.rows.column(OFFSET).to_pylist() if mapped.misfits else []
    assert bad == [1000 + i for i in sorted(chosen)]
    assert good == [1000 + i for i in range(len(batch)) if i not in chosen]
    for row in mapped.misfits.rows.to_pylist() if mapped.misfits else []:
        original = batch.slice(row[OFFSET] - 1000, 1).drop_columns(["t"])
        assert row_from_ipc(row["raw"]).schema == schema, "as the log has it"
        back = row_from_ipc(row["raw"]).drop_columns(["t"])
        assert comparable(_storable(back)) == comparable(_storable(original))


def _storable(row: pa.RecordBatch) -> list[Any]:
    """Converts nanoseconds, which have no Python type."""
    return [str(column) for column in row.columns]


@given(st.sets(st.integers(0, 50)), st.sets(st.integers(0, 50)))
def test_rows_that_are_dead_letters_are_left_out(present: set[int], gone: set[int]) -> None:
    rows = pa.record_batch([pa.array(sorted(present), pa.int64())], [OFFSET])
    left = without_offsets(rows, pa.array(sorted(gone), pa.int64()))
    assert left.column(OFFSET).to_pylist() == sorted(present - gone)
