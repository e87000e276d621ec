"""Reads the parameters that Loki's clients send: times, durations, limits."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime

from frazil.engine.interface import QueryRequest
from frazil.errors import QueryError
from frazil.query.logql.go_numbers import parse_float, parse_prometheus_duration, quoted
from frazil.web.parameters import Parameters

SECOND_NS = 1_000_000_000
DEFAULT_SPAN_NS = 3600 * SECOND_NS
DEFAULT_LIMIT = 100
MOST_POINTS = 11_000
_STEPS_BY_DEFAULT = 250
_MOST_SECONDS_DIGITS = 10
"""Whole numbers that are longer are nanoseconds."""

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_LARGEST = 2**63 - 1
_FARTHEST_NS = 2**62
"""Nobody has lines of other times than within 146 years of 1970. Beyond, arithmetic would soon overflow."""


@dataclass(frozen=True)
class Span:
    """Is a stretch of time in nanoseconds since 1970."""

    start_ns: int
    end_ns: int


def parameters_of(request: QueryRequest) -> Parameters:
    return Parameters.parse(request.query, request.body, request.headers.get("content-type"))


def span_of(parameters: Parameters) -> Span:
    """Returns what `start`, `end` and `since` say; the last hour if they say nothing."""
    now = time.time_ns()
    try:
        since = parameters.one("since")
        length = parse_prometheus_duration(since) if since else DEFAULT_SPAN_NS
    except ValueError as error:
        raise QueryError(f"could not parse 'since' parameter: {error}") from None
    end = _time(parameters, "end", now)
    return Span(_time(parameters, "start", min(end, now) - length), end)


def checked_span(parameters: Parameters) -> Span:
    """Returns the span if it does not end before it starts."""
    span = span_of(parameters)
    if span.end_ns < span.start_ns:
        raise QueryError("end timestamp must not be before or equal to start time")
    return span


def _time(parameters: Parameters, name: str, otherwise: int) -> int:
    text = parameters.one(name)
    if not text:
        return otherwise
    try:
        return min(max(parse_time(text), -_FARTHEST_NS), _FARTHEST_NS)
    except ValueError as error:
        raise QueryError(f"could not parse '{name}' parameter: {error}") from None


def instant_of(parameters: Parameters) -> int:
    text = parameters.one("time")
    if not text:
        return time.time_ns()
    try:
        time_ns = parse_time(text)
        if abs(time_ns) > _FARTHEST_NS:
            raise ValueError(f"the time {quoted(text)} is out of range")
    except ValueError as error:
        raise QueryError(str(error)) from None
    return time_ns


def parse_time(text: str) -> int:
    """Returns nanoseconds since 1970 of a time in seconds, nanoseconds or as RFC 3339, else raises `ValueError`."""
    if "." in text:
        try:
            return round(parse_float(text) * 1000) * 1_000_000
        except (ValueError, OverflowError):
            pass
    if _INTEGER.fullmatch(text):
        number = int(text) if len(text) > _MOST_SECONDS_DIGITS else int(text) * SECOND_NS
        if abs(number) > _LARGEST:
            raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
        return number
    found = _RFC_3339.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        zone = found[3].upper().replace("Z", "+00:00")
        seconds = int(datetime.fromisoformat(found[1].upper() + zone).timestamp())
    except ValueError:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax") from None
    return seconds * SECOND_NS + int((found[2] or "0").ljust(9, "0")[:9])


def step_of(parameters: Parameters, span: Span) -> int:
    """Returns the step between points in nanoseconds, by default one that gives about 250 points."""
    text = parameters.one("step")
    if text:
        step = _duration(text)
    else:
        step = max((span.end_ns - span.start_ns) // SECOND_NS // _STEPS_BY_DEFAULT, 1) * SECOND_NS
    if step <= 0:
        raise QueryError("zero or negative query resolution step widths are not accepted. Try a positive integer")
    if (span.end_ns - span.start_ns) / step > MOST_POINTS:
        raise QueryError(
            f"exceeded maximum resolution of {MOST_POINTS:,} points per time series. Try increasing the value of the "
            "step parameter"
        )
    return step


def interval_of(parameters: Parameters) -> int:
    text = parameters.one("interval")
    interval = _duration(text) if text else 0
    if interval < 0:
        raise QueryError("interval must be >= 0")
    return interval


def _duration(text: str) -> int:
    """Returns the nanoseconds of a number of seconds, or of a duration such as `1m`."""
    try:
        seconds = parse_float(text)
    except ValueError:
        pass
    else:
        nanoseconds = seconds * SECOND_NS
        if not abs(nanoseconds) <= _FARTHEST_NS:
            raise QueryError(f"cannot parse {quoted(text)} to a valid duration. It overflows int64")
        return round(nanoseconds)
    try:
        return min(parse_prometheus_duration(text), _FARTHEST_NS)
    except ValueError:
        raise QueryError(f"cannot parse {quoted(text)} to a valid duration") from None


def limit_of(parameters: Parameters, name: str = "limit", otherwise: int = DEFAULT_LIMIT) -> int:
    text = parameters.one(name)
    if not text:
        return otherwise
    if not _INTEGER.fullmatch(text):
        raise QueryError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    if abs(int(text)) > _LARGEST:
        raise QueryError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    if int(text) <= 0:
        raise QueryError(f"{name} must be a positive value")
    return int(text)


def is_newest_first(parameters: Parameters) -> bool:
    text = parameters.one("direction")
    if not text:
        return True
    if text.lower() not in ("forward", "backward"):
        raise QueryError(f"invalid direction '{text[:40]}'")
    return text.lower() == "backward"
