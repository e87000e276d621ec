"""Draws what `frazil status` shows to people."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from frazil.cli.terminal.output import print_renderable

Status = Mapping[str, Any]

_COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red", "unreachable": "red"}


def render(address: str, report: Status, before: Status | None = None) -> RenderableType:
    """Draws a report. If an earlier report is given, it also shows how fast topics grow."""
    headline = Text(f"{address} is ")
    headline.append(report["status"], style=_COLOURS.get(report["status"], ""))
    headline.append(f" (Frazil {report['version']}, up {duration(report['uptime_seconds'])})")
    shown: list[RenderableType] = [headline]
    if report["components"]:
        shown.append(_components(report["components"]))
    if report["topics"]:
        shown += [Text(), _topics(report, before)]
    return Group(*shown)


def show_live(address: str, reports: Iterable[Status]) -> None:
    """Shows one table that changes on a terminal. Elsewhere each report is printed below the last."""
    before: Status | None = None
    shown: RenderableType = Text()
    terminal = sys.stdout.isatty()
    with Live(console=Console(file=sys.stdout), auto_refresh=False, screen=False) if terminal else _Pages() as live:
        for report in reports:
            if "version" in report:
                shown, before = render(address, report, before), report
                live.update(shown, refresh=True)
            else:
                reason = Text(report["reason"], style="red")
                live.update(Group(shown, Text(), reason) if terminal else reason, refresh=True)


class _Pages:
    """Has the methods of rich's `Live`, and prints, for outputs where nothing can be overwritten."""

    def __enter__(self) -> _Pages:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, shown: RenderableType, *, refresh: bool) -> None:
        print_renderable(shown)
        print(flush=refresh)


def _components(components: Mapping[str, Status]) -> Table:
    table = _table("component", "status", "reason")
    for name, each in components.items():
        reasons = [f"{what}: {why}" for what, why in each.get("details", {}).items()] or [each["reason"]]
        status = Text(each["status"], style=_COLOURS.get(each["status"], ""))
        for number, reason in enumerate(reasons):
            table.add_row(Text(name if not number else ""), status if not number else Text(), Text(reason))
    return table


class _Column(NamedTuple):
    title: str
    value: Callable[[Status], str]


def _topics(report: Status, before: Status | None) -> Table:
    columns = [
        _Column("topic", lambda topic: topic["topic"]),
        _Column("partitions", lambda topic: str(len(topic["partitions"]))),
        _Column("records/s", lambda topic: _rate(topic, report, before)),
        _Column("Kafka lag", lambda topic: _count(topic["kafka_lag"])),
        _Column("unsealed", lambda topic: _count(topic["unsealed_records"])),
        _Column("bytes", lambda topic: _size(topic["unsealed_bytes"])),
        _Column("oldest", lambda topic: _seconds(topic["unsealed_seconds"])),
        _Column("hot rows", lambda topic: _count(topic["hot_rows"])),
        _Column("log end", lambda topic: _count(topic["log_end"])),
        _Column("in table", lambda topic: _count(topic["committed_offset"])),
        _Column("behind", lambda topic: _seconds(topic["freshness_seconds"])),
        _Column("last commit", lambda topic: _ago(topic["last_commit"])),
        _Column("dead letters", lambda topic: _count(topic["dead_letters"])),
        _Column("problem", lambda topic: _where(topic, report["components"])),
    ]
    rows = [[column.value(topic) for column in columns] for topic in report["topics"]]
    used = [number for number in range(len(columns)) if number < 2 or any(row[number] for row in rows)]
    table = _table(*(columns[number].title for number in used))
    for number, column in zip(used, table.columns, strict=True):
        column.justify = "left" if columns[number].title in ("topic", "problem") else "right"
    for row in rows:
        table.add_row(*(Text(row[number]) for number in used))
    return table


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def _rate(topic: Status, report: Status, before: Status | None) -> str:
    """Returns the records per second since the report before, wherever they were appended."""
    earlier = _find(before["topics"], topic["topic"]) if before else None
    seconds = report["uptime_seconds"] - before["uptime_seconds"] if before else 0.0
    if earlier is None or topic["log_end"] is None or earlier["log_end"] is None or seconds <= 0:
        return ""
    return f"{max(0, topic['log_end'] - earlier['log_end']) / seconds:,.0f}"


def _find(topics: Sequence[Status], name: str) -> Status | None:
    return next((topic for topic in topics if topic["topic"] == name), None)


def _where(topic: Status, components: Mapping[str, Status]) -> str:
    """Returns the components that say what is wrong with the topic."""
    wrong = topic["problems"]
    return ", ".join(name for name, each in components.items() if each.get("details", {}).keys() & wrong.keys())


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _ago(moment: float | None) -> str:
    return "" if moment is None else f"{duration(max(0.0, time.time() - moment))} ago"


def _size(size: float | None) -> str:
    if size is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    for length, unit in ((120, "s"), (120 * 60, "min"), (48 * 3600, "h")):
        if seconds < length:
            return f"{seconds / {'s': 1, 'min': 60, 'h': 3600}[unit]:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
