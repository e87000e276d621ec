"""UTF-8 is decoded as text, and for other bytes the fault says where they are invalid."""

from __future__ import annotations

import pickle
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.utf8 import TextDecoder
from frazil.formats.values import Payloads


def text_or_none(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


@given(st.lists(st.none() | st.binary(max_size=6) | st.text(max_size=6).map(str.encode)), st.integers(0, 3))
def test_each_value_is_its_text_or_a_fault(values: list[bytes | None], skipped: int) -> None:
    array = pa.array([b"\xff"] * skipped + values, pa.binary()).slice(skipped)
    decoded = TextDecoder().decode(Payloads(array), None)
    wrong = [place for place, value in enumerate(values) if value is not None and text_or_none(value) is None]
    (part,) = decoded.columns
    assert sorted(decoded.faults) == wrong
    assert part.positions.tolist() == [place for place in range(len(values)) if place not in wrong]
    assert part.column.type == pa.string()
    assert part.column.to_pylist() == [
        None if v is None else v.decode() for p, v in enumerate(values) if p not in wrong
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"abc\xff", r"not UTF-8: invalid start byte at byte 3 \(0xff\)"),
        (b"\xc3", r"unexpected end of data at byte 0"),
        (b"ab\xed\xa0\x80", r"invalid continuation byte at byte 2"),
    ],
)
def test_the_reason_says_where(data: bytes, why: str) -> None:
    decoded = TextDecoder().decode(Payloads(pa.array([b"fine", data], pa.binary())), None)
    assert list(decoded.faults) == [1]
    assert re.search(why, decoded.faults[1])


def test_what_is_known_before_and_elsewhere() -> None:
    decoder = pickle.loads(pickle.dumps(TextDecoder()))
    nothing = Payloads(pa.array([], pa.binary()))
    assert list(decoder.kinds()) == list(decoder.survey(nothing, None)) == [pa.string()]
    assert decoder.decode(nothing, None).columns[0].column.type == pa.string()
