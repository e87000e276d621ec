"""Reads and writes durations, as Prometheus and Go write them. They are whole nanoseconds."""

from __future__ import annotations

import re
from decimal import Decimal

_PROMETHEUS = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?",
    re.ASCII,
)
_UNITS_OF_PROMETHEUS = (365 * 86_400_000, 7 * 86_400_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS_OF_GO = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LATEST = 2**63 - 1


def parse_duration(text: str) -> int | None:
    """Returns the nanoseconds of a duration without a sign; None if the text is none."""
    if not text:
        return None
    if found := _PROMETHEUS.fullmatch(text):
        total = sum(int(n) * unit for n, unit in zip(found.groups("0"), _UNITS_OF_PROMETHEUS, strict=True)) * 10**6
    else:
        go = parse_go_duration(text)
        if go is None:
            return None
        total = go
    return total if total <= _LATEST else None


def parse_go_duration(text: str) -> int | None:
    """Returns the nanoseconds of what Go takes for a duration, without a sign; None if the text is none."""
    at, total = 0, Decimal(0)
    while at < len(text):
        part = _GO_PART.match(text, at)
        if part is None:
            return None
        total += Decimal(part[1]) * _UNITS_OF_GO[part[2]]
        at = part.end()
    return int(total) if at and total <= _LATEST else None


def format_duration(nanoseconds: int) -> str:
    """Writes a duration as Go does: `1m30s`, `580.3ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", 1), ("µs", 1000), ("ms", 10**6)):
        if left < size * 1000 and left < 10**9:
            return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
