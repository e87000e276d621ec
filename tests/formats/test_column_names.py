"""Columns of values never have the name of another column, and their fields can be derived from them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats import kafka
from frazil.formats.column_names import column_of, field_of, fields_of
from frazil.log.schema.columns import OFFSET, PARTITION, RESERVED

TAKEN = [*RESERVED, OFFSET, PARTITION, *kafka.SCHEMA.names, kafka.TOMBSTONE]

names = st.builds(
    lambda mark, name: mark + name, st.sampled_from(["", "_", "__"]), st.sampled_from(TAKEN) | st.text()
)


@given(names)
def test_a_column_has_its_field(name: str) -> None:
    column = column_of(name)
    assert column.lower() not in TAKEN
    assert field_of(column) == name


@given(names, names)
def test_different_fields_have_different_columns(one: str, other: str) -> None:
    assert (column_of(one) == column_of(other)) is (one == other)


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("a", "a"),
        ("_a", "_a"),
        ("_offset", "__offset"),
        ("__offset", "___offset"),
        ("_OFFSET", "__OFFSET"),
        ("_kafka_of_mine", "__kafka_of_mine"),
        ("_file", "__file"),
        ("offset", "offset"),
    ],
)
def test_which_names_change(field: str, column: str) -> None:
    assert column_of(field) == column


def test_fields_of_rows() -> None:
    rows = pa.schema([*kafka.SCHEMA, ("a", pa.int32()), ("__offset", pa.int8()), (PARTITION, pa.int32())])
    assert fields_of(rows) == pa.schema([("a", pa.int32()), ("_offset", pa.int8())])
