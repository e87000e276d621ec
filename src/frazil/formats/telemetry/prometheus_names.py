"""Names as Prometheus has them, of metrics and attributes of OpenTelemetry.

The rules are those that a Prometheus server applies to OTLP by default: a name says unit and kind, and has only
characters that need no quotes in a query.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.telemetry.runs import Ints

Bools = npt.NDArray[np.bool_]

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
    """Of histograms and summaries without what their series add: `_bucket`, `_sum`, `_count`.

    A name with no character that Prometheus has stays as it is.
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


def metric_names(names: pa.Array, units: pa.Array, at: Ints, counters: Bools, gauges: Bools) -> pa.Array:
    """As `metric_name`, for those at these places; worked out once for those that are alike."""
    name, unit = names.dictionary_encode(), units.dictionary_encode()
    every_name, every_unit = name.dictionary.to_pylist(), unit.dictionary.to_pylist()
    codes = name.indices.to_numpy()[at].astype(np.int64) * len(every_unit) + unit.indices.to_numpy()[at]
    alike, places = np.unique(codes * 4 + counters * 2 + gauges, return_inverse=True)
    found = []
    for code in alike.tolist():
        of_name, of_unit = divmod(code >> 2, len(every_unit))
        found.append(metric_name(every_name[of_name], every_unit[of_unit], bool(code & 2), bool(code & 1)))
    return pa.array(found, pa.string()).take(pa.array(places))


def label_name(key: str) -> str:
    found = _NOT_OF_LABELS.sub("_", key)
    if not found or found[0].isdigit():
        return f"key_{found}"
    # Two underscores at the start are for Prometheus itself, which leaves them.
    return f"key{found}" if found[0] == "_" and found[:2] != "__" else found


def _unit(unit: str) -> list[str]:
    """What a unit adds to a name: "By/s" is `bytes`, `per_second`; what stands in braces is no unit."""
    of, _, per = (part.strip() for part in unit.partition("/"))
    one = "" if "{" in of or "}" in of else _cleaned(_UNITS.get(of, of))
    other = "" if "{" in per or "}" in per else _cleaned(_PER.get(per, per)).removesuffix("_")
    if not other:
        return [one] if one else []
    return [word for word in (one.removesuffix("_"), f"per_{other}") if word]


def _cleaned(unit: str) -> str:
    return _NOT_OF_METRICS.sub("_", unit).removeprefix("_")
