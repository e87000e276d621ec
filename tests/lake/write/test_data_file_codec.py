"""Tests that data files are decoded as they were encoded."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from frazil.errors import SerializationError
from frazil.lake.write.data_file_codec import decode_data_file, encode_data_file

_IDS = st.integers(1, 10_000)
_COUNTS = st.dictionaries(_IDS, st.integers(0, 2**63 - 1), max_size=5)
_BOUNDS = st.dictionaries(_IDS, st.binary(max_size=20), max_size=5)
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
)


@st.composite
def _files(draw: st.DrawFn) -> DataFile:
    metrics: dict[str, Any] = {
        name: draw(_COUNTS) for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    }
    metrics |= {name: draw(_BOUNDS) for name in ("lower_bounds", "upper_bounds")}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=draw(st.text()),
        file_format=FileFormat.PARQUET,
        partition=Record(*draw(st.lists(_VALUES, max_size=4))),
        record_count=draw(st.integers(0, 2**63 - 1)),
        file_size_in_bytes=draw(st.integers(0, 2**63 - 1)),
        split_offsets=draw(st.lists(st.integers(0, 2**63 - 1))),
        sort_order_id=draw(st.integers(0, 100)),
        **metrics,
    )
    file.spec_id = draw(st.integers(0, 100))
    return file


@given(_files())
def test_a_file_arrives_as_it_was_sent(file: DataFile) -> None:
    arrived = decode_data_file(encode_data_file(file))
    assert arrived.spec_id == file.spec_id
    assert list(map(_comparable, arrived._data)) == list(map(_comparable, file._data))


def _comparable(value: Any) -> Any:
    if isinstance(value, Record):
        return [(type(each), "NaN" if each != each and math.isnan(each) else each) for each in value._data]
    return value


@pytest.mark.parametrize("data", [b"", b"\x02abc", b"\x01abc"])
def test_what_is_no_file_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        decode_data_file(data)
