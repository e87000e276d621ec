"""Reads series as test scripts write them: labels, then points with repetitions."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from frazil.query.promql.histograms.histogram import CUSTOM_SCHEMA, EMPTY, Buckets, Hint, Histogram
from frazil.query.promql.histograms.merge import add, subtract
from frazil.query.promql.parse import parse_metric
from frazil.query.promql.parse.literals import parse_duration_ms
from frazil.query.promql.series.source import STALE

NUMBER = r"(?:\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI][nN][fF]|[nN][aA][nN]|stale)"
FLOATS = re.compile(rf"([+-]?{NUMBER})(?:([+-])({NUMBER}))?(?:x(\d+))?")
BLANK = re.compile(r"_(?:x(\d+))?")
HISTOGRAMS = re.compile(r"\{\{(.*?)\}\}(?:([+-])\{\{(.*?)\}\})?(?:x(\d+))?", re.S)
STARTS = re.compile(r"([+-]?)((?:\d+(?:ms|[ywdhms]))+|0)(?:([+-])((?:\d+(?:ms|[ywdhms]))+|0))?(?:x(\d+))?")
ITEM = re.compile(r"\{\{.*?\}\}(?:[+-]\{\{.*?\}\})?(?:x\d+)?|\S+")
FIELD = re.compile(r"(\w+):(\[[^\]]*\]|\S+)")
HINTS = {"unknown": Hint.UNKNOWN, "reset": Hint.RESET, "not_reset": Hint.NOT_RESET, "gauge": Hint.GAUGE}


@dataclass(frozen=True)
class Expected:
    """Is a histogram with whether its hint was written."""

    histogram: Histogram
    hinted: bool


Point = float | Expected | None


def split_line(line: str) -> tuple[str, str]:
    """Cuts a line into labels and points."""
    depth, quote = 0, ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote and line[at - 1] != "\\" else quote
        elif char in "\"'`" and depth:
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return line[: at + 1], line[at + 1 :]
        elif not depth and (char == "@" or (char in " \t" and not has_labels(line[at:]))):
            return line[:at], line[at:]
    return line, ""


def has_labels(rest: str) -> bool:
    """Whether labels come next, not points."""
    rest = rest.lstrip()
    return rest.startswith("{") and not rest.startswith("{{")


def read_series(line: str) -> tuple[dict[str, str], list[Point]]:
    """Returns labels and points of a line."""
    labels, rest = split_line(line)
    return labels_of(labels), [point for item in ITEM.findall(rest) for point in points(item)]


def labels_of(text: str) -> dict[str, str]:
    return {} if text.strip() == "{}" else parse_metric(text.strip())


def number(text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    body = text.lstrip("+-")
    return STALE if body == "stale" else sign * float(body.replace("_", ""))


def points(item: str) -> list[Point]:
    """Returns the points that one item stands for."""
    if found := BLANK.fullmatch(item):
        return [None] * int(found.group(1) or 1)
    if found := HISTOGRAMS.fullmatch(item):
        return list(histogram_points(found))
    found = FLOATS.fullmatch(item)
    if found is None:
        raise ValueError(f"no point: {item}")
    value, times = number(found.group(1)), found.group(4)
    step = number((found.group(2) or "") + found.group(3)) if found.group(3) else 0.0
    values: list[Point] = [value]
    for _ in range(int(times or 0)):
        value = value + step if found.group(3) else value
        values.append(value)
    return values


def histogram_points(found: re.Match[str]) -> list[Point]:
    first = histogram(found.group(1))
    values: list[Point] = [first]
    if found.group(3) is None:
        return values * (int(found.group(4) or 0) + 1)
    step, current = histogram(found.group(3)).histogram, first.histogram
    for _ in range(int(found.group(4) or 0)):
        hint = current.hint
        merged = add(current, step) if found.group(2) == "+" else subtract(current, step)
        current = merged.histogram.compact().with_hint(merged.histogram.hint if found.group(2) == "+" else hint)
        values.append(Expected(current, first.hinted))
    return values


def histogram(text: str) -> Expected:
    """Reads what stands between double braces."""
    fields = dict(FIELD.findall(text))
    schema = int(fields.get("schema", 0))
    bounds = tuple(numbers(fields.get("custom_values", "[]")))
    if "custom_values" in fields and "schema" not in fields:
        schema = CUSTOM_SCHEMA
    return Expected(
        Histogram(
            schema=schema,
            count=number(fields.get("count", "0")),
            sum=number(fields.get("sum", "0")),
            zero_threshold=number(fields.get("z_bucket_w", "0")),
            zero_count=number(fields.get("z_bucket", "0")),
            positive=side(fields.get("buckets", "[]"), int(fields.get("offset", 0))),
            negative=side(fields.get("n_buckets", "[]"), int(fields.get("n_offset", 0))),
            bounds=bounds,
            hint=HINTS[fields.get("counter_reset_hint", "unknown")],
        ),
        "counter_reset_hint" in fields,
    )


def numbers(text: str) -> list[float]:
    return [number(part) for part in text.strip("[]").split()]


def side(text: str, offset: int) -> Buckets:
    counts = np.array(numbers(text))
    return Buckets(np.arange(len(counts), dtype=np.int64) + offset, counts) if len(counts) else EMPTY


def start_offsets(text: str) -> list[int | None]:
    """Reads a line of start times: milliseconds relative to the samples of the next line."""
    found: list[int | None] = []
    for item in text.split():
        if blank := BLANK.fullmatch(item):
            found += [None] * int(blank.group(1) or 1)
            continue
        match = STARTS.fullmatch(item)
        if match is None:
            raise ValueError(f"no start time: {item}")
        value = parse_duration_ms(match.group(2)) * (-1 if match.group(1) == "-" else 1)
        step = parse_duration_ms(match.group(4)) * (-1 if match.group(3) == "-" else 1) if match.group(4) else 0
        found += [value + step * at for at in range(int(match.group(5) or 0) + 1)]
    return found
