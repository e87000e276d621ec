"""Prints results of commands: tables for people, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import RenderableType

Format = Literal["human", "json"]


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table as wide as the terminal. In a pipe it is as wide as its content, so that nothing is cut off."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    print_renderable(table)


def print_renderable(shown: RenderableType) -> None:
    """Prints something that rich can draw, as wide as the terminal. In a pipe it is as wide as its content."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else 10_000, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        print(line if terminal else line.rstrip())
