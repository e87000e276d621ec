"""Shows figures to people and to programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Throughput, Unit

COLUMNS = ("figure", "ours", "limit of this machine", "ratio", "rounds", "target", "")


def number(value: float, unit: Unit) -> str:
    if unit in get_args(Throughput):
        return f"{value:,.0f} {unit}"
    if unit == "ms":
        if value >= 1000:
            return f"{value / 1000:.3g} s"
        return f"{value * 1000:.3g} µs" if value < 1 else f"{value:.3g} ms"
    return f"{value:.2f} {unit}" if value < 10 else f"{value:,.0f} {unit}"


def cells(figure: Figure) -> tuple[str, ...]:
    limit = f"{number(figure.limit, figure.unit)}, {figure.limit_name}" if figure.limit is not None else ""
    ratio = f"{figure.ratio:.0%}" if figure.ratio is not None else ""
    spread = f"{min(figure.ratios):.0%} to {max(figure.ratios):.0%}" if figure.ratios else ""
    target = str(figure.target) if figure.target else ""
    verdict = {True: "ok", False: "MISSED", None: ""}[figure.ok]
    return figure.name, number(figure.ours, figure.unit), limit, ratio, spread, target, verdict


def show(machine: dict[str, str], figures: Sequence[Figure]) -> None:
    console = Console()
    for name, value in machine.items():
        console.print(f"{name}: {value}", highlight=False, soft_wrap=True)
    if not console.is_terminal:
        print(plain(figures))
        return
    table = Table(*COLUMNS, title=None)
    for figure in figures:
        style = {True: "green", False: "bold red", None: None}[figure.ok]
        *row, verdict = cells(figure)
        table.add_row(*row, f"[{style}]{verdict}[/]" if style else verdict)
    console.print(table)


def plain(figures: Sequence[Figure]) -> str:
    """Returns a Markdown table, which a person can read as it is."""
    rows = [COLUMNS, *(cells(figure) for figure in figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def as_json(machine: dict[str, str], figures: Sequence[Figure]) -> str:
    return json.dumps({"machine": machine, "figures": [_described(figure) for figure in figures]}, indent=2)


def _described(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "ours": figure.ours,
        "limit": figure.limit,
        "limit_name": figure.limit_name or None,
        "ratio": figure.ratio,
        "ratios": figure.ratios,
        "target": str(figure.target) if figure.target else None,
        "ok": figure.ok,
    }
