"""Reads the parameters of requests, and words what is wrong with them as Prometheus does."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from frazil.engine.interface import QueryRequest
from frazil.query.promql.api.envelope import BadParameter
from frazil.query.promql.parse.literals import parse_duration_ms, quote
from frazil.web.parameters import Parameters

_LONGEST_SECONDS = (2**63 - 1) / 1e9
_EXTREMES = {
    "-292273086-05-16T16:47:06Z": -(2**53),
    "292277025-08-18T07:12:54.999999999Z": 2**53,
}
"""Prometheus prints its least and its greatest time like this, and clients send them back."""
_EARLIEST_MS, _LATEST_MS = -(2**53), 2**53
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_LONGEST_INTEGER = 19
"""Numbers with more characters may not fit 64 bits. Python refuses to read some thousand digits."""


def parameters(request: QueryRequest) -> Parameters:
    return Parameters.parse(request.query, request.body, request.headers.get("content-type"))


def text(given: Parameters, name: str) -> str:
    return given.one(name) or ""


def time_ms(value: str) -> int:
    """Reads a time: seconds since 1970, or RFC 3339. Raises `ValueError` with the reason."""
    if _NUMBER.fullmatch(value):
        seconds = float(value)
        if math.isfinite(seconds):
            return min(max(round(seconds * 1000), _EARLIEST_MS), _LATEST_MS)
    if value in _EXTREMES:
        return _EXTREMES[value]
    if found := _RFC3339.fullmatch(value):
        try:
            moment = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
        except ValueError:
            pass
        else:
            whole = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1000
            return whole + int(float(f"0{found[2] or '.0'}") * 1000)
    raise ValueError(f"cannot parse {quote(value)} to a valid timestamp")


def required_time(given: Parameters, name: str) -> int:
    try:
        return time_ms(text(given, name))
    except ValueError as error:
        raise BadParameter(name, error) from None


def optional_time(given: Parameters, name: str) -> int | None:
    value = text(given, name)
    if not value:
        return None
    try:
        return time_ms(value)
    except ValueError as error:
        raise BadParameter(name, f"invalid time value for '{name}': {error}") from None


def duration_ms(value: str) -> int:
    """Reads a duration: seconds, or as PromQL writes them. Raises `ValueError` with the reason."""
    if _NUMBER.fullmatch(value):
        seconds = float(value)
        if abs(seconds) > _LONGEST_SECONDS:
            raise ValueError(f"cannot parse {quote(value)} to a valid duration. It overflows int64")
        return int(seconds * 1000)
    try:
        return parse_duration_ms(value)
    except ValueError:
        raise ValueError(f"cannot parse {quote(value)} to a valid duration") from None


def required_duration(given: Parameters, name: str) -> int:
    try:
        return duration_ms(text(given, name))
    except ValueError as error:
        raise BadParameter(name, error) from None


def optional_duration(given: Parameters, name: str) -> int | None:
    return required_duration(given, name) if text(given, name) else None


def limit(given: Parameters, name: str = "limit") -> int:
    """Returns the most entries that are wanted; 0 stands for all."""
    value = text(given, name)
    if not value:
        return 0
    if not _INTEGER.fullmatch(value):
        raise BadParameter(name, f"strconv.Atoi: parsing {quote(value)}: invalid syntax")
    if len(value) > _LONGEST_INTEGER:
        raise BadParameter(name, f"strconv.Atoi: parsing {quote(value)}: value out of range")
    if int(value) < 0:
        raise BadParameter(name, "limit must be non-negative")
    return int(value)
