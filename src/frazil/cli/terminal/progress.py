"""Shows progress bars on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from frazil.cli.terminal.interrupts import Interrupts
from frazil.load.inputs import Input

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class LoadProgress:
    """Shows the progress of a load, and lets the load hold back interrupts."""

    def __init__(self, interrupts: Interrupts, progress: Progress | None, total: int | None) -> None:
        self._interrupts = interrupts
        self._progress = progress
        self._total = total
        self._task: TaskID | None = None
        self._phase = ""
        self._read: dict[Input, int] = {}

    def checking(self, source: Input, read: int) -> None:
        self._show("checking", source, read, 0)

    def loading(self, source: Input, read: int, rows: int) -> None:
        self._show("loading", source, read, rows)

    def _show(self, phase: str, source: Input, read: int, rows: int) -> None:
        if self._progress is None:
            return
        if phase != self._phase:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._phase, self._read = phase, {}
            self._task = self._progress.add_task(phase, total=self._total, rows=0)
        self._read[source] = read
        assert self._task is not None
        self._progress.update(self._task, completed=sum(self._read.values()), rows=rows)

    def note(self, text: str) -> None:
        if self._progress:
            self._progress.console.print(f"frazil: {text}", markup=False, highlight=False)
        else:
            print(f"frazil: {text}", file=sys.stderr)

    def uninterrupted(self) -> AbstractContextManager[None]:
        return self._interrupts.held()


@contextmanager
def load_progress(inputs: Sequence[Input], interrupts: Interrupts) -> Iterator[LoadProgress]:
    sizes = [source.size for source in inputs]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    if not sys.stderr.isatty():
        yield LoadProgress(interrupts, None, total)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield LoadProgress(interrupts, progress, total)


@contextmanager
def step_progress(what: str) -> Iterator[Progress | None]:
    """Yields a bar for counted steps, or None when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield progress
