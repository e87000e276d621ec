"""Reads scripts of cases for LogQL: what is loaded, what is asked, and what is expected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from frazil.query.logql.go_numbers import parse_prometheus_duration

_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_LOAD = re.compile(
    r"""
    (?P<labels>\{.*?\}) \s+ (?:"(?P<quoted>[^"]*)"|`(?P<raw>[^`]*)`) \s+ @ \s* (?P<start>\S+)
    (?:\s+\[repeat \s+ every \s+ (?P<step>\S+) \s+ for \s+ (?P<count>\d+)\s*\])?
    (?:\s+\[metadata \s+ (?P<metadata>.*?)\s*\])?
    \s*(?:\#.*)?
    """,
    re.VERBOSE,
)
_INSTANT = re.compile(r"eval instant at (\S+)\s+(.*)", re.DOTALL)
_RANGE = re.compile(r"eval range from (\S+) to (\S+) step (\S+)\s+(.*)", re.DOTALL)
_RUN = re.compile(r"(?P<base>[^x]+?)(?P<step>[+-][^x]+)?x(?P<count>\d+)")


@dataclass(frozen=True)
class Line:
    labels: dict[str, str]
    text: str
    time_ns: int
    metadata: dict[str, str]


@dataclass
class Case:
    """Is one evaluation over what was loaded before it. `times` are the instant, or start, end and step."""

    place: str
    query: str
    times: tuple[int, ...]
    lines: list[Line]
    scalar: float | None = None
    series: list[tuple[dict[str, str], list[float | None]]] = field(default_factory=list)
    empty: bool = False
    ordered: bool = False
    fails: bool = False
    message: str = ""
    pattern: str = ""


def cases_of(path: Path) -> Iterator[Case]:
    lines: list[Line] = []
    case: Case | None = None
    loading = False
    for number, written in enumerate(path.read_text().splitlines(), 1):
        text = written.strip()
        if not text or text.startswith("#"):
            continue
        if not written[0].isspace():
            if case:
                yield case
            case, loading = None, text.startswith("load")
            if text.startswith("clear"):
                lines = []
            elif text.startswith("eval"):
                case = _case(f"{path.name}:{number}", text, lines)
            elif not loading:
                raise ValueError(f"{path.name}:{number}: unknown command: {text}")
        elif loading:
            lines = [*lines, *_loaded(text)]
        elif case:
            _expect(case, text)
    if case:
        yield case


def _case(place: str, text: str, lines: list[Line]) -> Case:
    if instant := _INSTANT.fullmatch(text):
        return Case(place, instant[2], (parse_prometheus_duration(instant[1]),), lines)
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{place}: no evaluation: {text}")
    start, end, step = (parse_prometheus_duration(found[group]) for group in (1, 2, 3))
    return Case(place, found[4], (start, end, step), lines)


def _loaded(text: str) -> Iterator[Line]:
    found = _LOAD.fullmatch(text)
    if found is None:
        raise ValueError(f"not a line to load: {text}")
    labels = _filled(_labels(found["labels"]))
    metadata = _labels(found["metadata"] or "")
    line = found["raw"] if found["quoted"] is None else found["quoted"]
    start = parse_prometheus_duration(found["start"])
    step = parse_prometheus_duration(found["step"]) if found["step"] else 0
    for index in range(int(found["count"] or 1)):
        yield Line(labels, line.replace("{{.i}}", str(index)), start + index * step, metadata)


def _labels(text: str) -> dict[str, str]:
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in _LABEL.findall(text)}


def _filled(labels: dict[str, str]) -> dict[str, str]:
    """Leaves out empty labels, as a push does. Empty metadata stays."""
    return {name: value for name, value in labels.items() if value}


def _expect(case: Case, text: str) -> None:
    if text.startswith("skip"):
        return
    if text.startswith("expect"):
        _, word, *rest = text.split(None, 2)
        case.empty |= word == "empty"
        case.ordered |= word == "ordered"
        if word == "fail":
            case.fails = True
            kind, _, value = (rest[0] if rest else "").partition(":")
            if kind == "msg":
                case.message = value.strip()
            elif kind == "regex":
                case.pattern = value.strip()
        return
    if not text.startswith("{"):
        case.scalar = _number(text.split("#")[0].strip())
        return
    end = _labels_end(text)
    points: list[float | None] = []
    for word in text[end:].split("#")[0].split():
        points += _points(word)
    case.series.append((_labels(text[1 : end - 1]), points))


def _labels_end(text: str) -> int:
    found = re.match(r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}', text)
    if found is None:
        raise ValueError(f"no labels: {text}")
    return found.end()


def _points(word: str) -> list[float | None]:
    if word.startswith("_"):
        return [None] * (int(word[2:]) + 1 if word.startswith("_x") else 1)
    run = _RUN.fullmatch(word)
    if run is None:
        return [_number(word)]
    base, step = _number(run["base"]), _number(run["step"] or "0")
    return [base + step * index for index in range(int(run["count"]) + 1)]


def _number(word: str) -> float:
    return math.nan if word.lower() == "nan" else float(word)
