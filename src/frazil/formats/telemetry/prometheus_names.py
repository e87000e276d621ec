"""Translates the names of OpenTelemetry's metrics and attributes to those of Prometheus.

The rules are those that a Prometheus server applies to OTLP by default: a name includes unit and kind, and has only
characters that need no quotes in a query.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NOT_OF_METRICS = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_OF_LABELS = re.compile(r"[^a-zA-Z0-9_]")

_UNITS = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "TiBy": "tebibytes",
    "kBy": "kilobytes",
    "KBy": "kilobytes",
    "MBy": "megabytes",
    "GBy": "gigabytes",
    "TBy": "terabytes",
    "m": "meters",
    "V": "volts",
    "A": "amperes",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "Cel": "celsius",
    "Hz": "hertz",
    "1": "",
    "%": "percent",
}
_PER = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}


@lru_cache(maxsize=4096)
def metric_name(name: str, unit: str, counter: bool, gauge: bool) -> str:
    """Returns the name of a metric, for histograms and summaries without the suffixes of their series: `_bucket`,
    `_sum`, `_count`.

    A name without any character that Prometheus allows stays as it is.
    """
    words = [word for word in _NOT_OF_METRICS.split(name) if word]
    if not words:
        return name
    words += [word for word in _unit(unit) if word not in words]
    if counter:
        words = [word for word in words if word != "total"] + ["total"]
    if gauge and unit == "1":
        words = [word for word in words if word != "ratio"] + ["ratio"]
    found = "_".join(words)
    return f"_{found}" if found[:1].isdigit() else found


def label_name(key: str) -> str:
    found = _NOT_OF_LABELS.sub("_", key)
    if not found or found[0].isdigit():
        return f"key_{found}"
    # Two underscores at the start are reserved for Prometheus, which leaves them.
    return f"key{found}" if found[0] == "_" and found[:2] != "__" else found


def _unit(unit: str) -> list[str]:
    """Returns the words that a unit adds to a name: `bytes`, `per_second` for "By/s". Text in braces is not a
    unit."""
    of, _, per = (part.strip() for part in unit.partition("/"))
    one = "" if "{" in of or "}" in of else _cleaned(_UNITS.get(of, of))
    other = "" if "{" in per or "}" in per else _cleaned(_PER.get(per, per)).removesuffix("_")
    if not other:
        return [one] if one else []
    return [word for word in (one.removesuffix("_"), f"per_{other}") if word]


def _cleaned(unit: str) -> str:
    return _NOT_OF_METRICS.sub("_", unit).removeprefix("_")
