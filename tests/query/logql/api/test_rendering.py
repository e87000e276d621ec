"""Tests that numbers and times are written as Loki writes them."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.logql.api.rendering import matrix, number_texts, seconds_text
from frazil.query.logql.engine import RangeMatrix
from frazil.query.logql.go_numbers import format_float
from frazil.query.logql.metrics.matrix import Matrix


@given(st.lists(st.floats(), min_size=65, max_size=80))
def test_many_numbers_are_written_like_single_ones(values: list[float]) -> None:
    assert number_texts(np.array(values)).to_pylist() == [format_float(value) for value in values]


def test_times_have_milliseconds_if_there_are_any() -> None:
    assert seconds_text(1794944940_000_000_000) == "1794944940"
    assert seconds_text(1794944940_120_999_999) == "1794944940.12"


def test_series_are_sorted_and_have_the_points_that_there_are() -> None:
    made = Matrix(
        [(("a", "2"),), (("a", "1"),)], np.array([[1.0, 2.5], [3.0, np.inf]]), np.array([[True, False], [True, True]])
    )
    body = b"".join(matrix(RangeMatrix(made, np.array([0, 1_500_000_000])), lambda: None))
    assert json.loads(body) == [
        {"metric": {"a": "1"}, "values": [[0, "3"], [1.5, "+Inf"]]},
        {"metric": {"a": "2"}, "values": [[0, "1"]]},
    ]
