"""Tests that times, durations and limits are read as Loki's clients send them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import QueryError
from frazil.query.logql.api import parameters
from frazil.query.logql.api.parameters import Span, parse_time
from frazil.web.parameters import Parameters

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1794944820", 1794944820 * SECOND),
        ("4000000000", 4000000000 * SECOND),
        ("1794944820000000001", 1794944820000000001),
        ("1794944820.5", 1794944820_500_000_000),
        ("2026-11-17T19:47:00Z", 1794944820 * SECOND),
        ("2026-11-17T20:47:00.123456789+01:00", 1794944820_123_456_789),
        ("2026-11-17T19:47:00.5Z", 1794944820_500_000_000),
    ],
)
def test_times(text: str, time_ns: int) -> None:
    assert parse_time(text) == time_ns


@pytest.mark.parametrize("text", ["x", "2026-11-17", "1e3x", "2026-13-17T19:47:00Z", "", "--5", "NaN."])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"strconv\.ParseInt: parsing .*: invalid syntax"):
        parse_time(text)


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_time(text), int)


def given_parameters(**given: str) -> Parameters:
    return Parameters(given.items())


def test_the_last_hour_is_asked_for_by_default() -> None:
    span = parameters.span_of(given_parameters())
    assert span.end_ns - span.start_ns == 3600 * SECOND
    assert parameters.span_of(given_parameters(end="100", since="1m")) == Span(40 * SECOND, 100 * SECOND)


@pytest.mark.parametrize(
    ("step", "nanoseconds"), [("15", 15 * SECOND), ("0.5", SECOND // 2), ("500ms", SECOND // 2), ("1m", 60 * SECOND)]
)
def test_steps(step: str, nanoseconds: int) -> None:
    assert parameters.step_of(given_parameters(step=step), Span(0, 3600 * SECOND)) == nanoseconds


def test_a_step_by_default_gives_250_points() -> None:
    assert parameters.step_of(given_parameters(), Span(0, 3600 * SECOND)) == 14 * SECOND
    assert parameters.step_of(given_parameters(), Span(0, SECOND)) == SECOND


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"start": "x"}, "could not parse 'start' parameter: strconv.ParseInt"),
        ({"since": "x"}, "could not parse 'since' parameter: not a valid duration string"),
        ({"start": "20", "end": "10"}, "end timestamp must not be before or equal to start time"),
        ({"limit": "0"}, "limit must be a positive value"),
        ({"limit": "x"}, 'strconv.Atoi: parsing "x": invalid syntax'),
        ({"direction": "up"}, "invalid direction 'up'"),
        ({"step": "0"}, "zero or negative query resolution step widths are not accepted"),
        ({"step": "0.5m"}, 'cannot parse "0.5m" to a valid duration'),
        ({"step": "NaN"}, 'cannot parse "NaN" to a valid duration'),
        ({"start": "0", "end": "100000", "step": "1"}, "exceeded maximum resolution of 11,000 points"),
        ({"interval": "-1"}, "interval must be >= 0"),
    ],
)
def test_wrong_parameters_are_told(given: dict[str, str], reason: str) -> None:
    texts = given_parameters(**given)
    with pytest.raises(QueryError) as raised:
        read_all(texts)
    assert reason in str(raised.value)


def read_all(texts: Parameters) -> None:
    parameters.step_of(texts, parameters.checked_span(texts))
    parameters.limit_of(texts)
    parameters.interval_of(texts)
    parameters.is_newest_first(texts)
