"""Numbers, durations and sizes are read and written as Go does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.logql.go_numbers import (
    format_bytes,
    format_float,
    format_go_duration,
    format_prometheus_duration,
    parse_bytes,
    parse_float,
    parse_go_duration,
    parse_prometheus_duration,
)

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), (".5", 0.5), ("1.", 1.0), ("1_0", 10.0), ("+Inf", math.inf), ("0x1p3", 8.0), ("1e3", 1000.0)],
)
def test_floats(text: str, value: float) -> None:
    assert parse_float(text) == value


@pytest.mark.parametrize("text", ["", "abc", "0x10", "1e", "_1", "1__0", " 1", "١"])
def test_no_floats(text: str) -> None:
    with pytest.raises(ValueError, match=r"strconv\.ParseFloat: parsing .*: invalid syntax"):
        parse_float(text)


@given(st.floats(allow_nan=False))
def test_printed_floats_read_back(value: float) -> None:
    text = format_float(value)
    assert "e" not in text
    assert float(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1h30m5s", 5405 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("-100us", -100_000),
        ("0", 0),
        ("1µs", 1000),
        (".5s", SECOND // 2),
    ],
)
def test_go_durations(text: str, value: int) -> None:
    assert parse_go_duration(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("xyz", 'time: invalid duration "xyz"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("", 'time: invalid duration ""'),
    ],
)
def test_no_go_durations(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_go_duration(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", 'not a valid duration string: "5"'),
        ("5x", 'unknown unit "x"'),
        ("", "empty duration"),
        ("30m1h", "not a valid"),
    ],
)
def test_no_prometheus_durations(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_prometheus_duration(text)


@given(st.integers(-(10**15), 10**15))
def test_printed_durations_read_back(value: int) -> None:
    assert parse_go_duration(format_go_duration(value)) == value
    milliseconds = abs(value) // 1_000_000 * 1_000_000
    assert parse_prometheus_duration(format_prometheus_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1.5", 1),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1 KB", 1000),
        ("2MiB", 2 << 20),
        ("2,048", 2048),
        ("1eb", 10**18),
    ],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@given(st.integers(0, 2**60))
def test_printed_sizes_read_back(value: int) -> None:
    assert parse_bytes(format_bytes(value)) == value
