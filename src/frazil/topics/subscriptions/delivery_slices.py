"""Splits delivered messages by size, so that a receiver can take them into memory one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.topics.read.batch_slices import head
from frazil.topics.subscriptions.delivery import Delivered


def split(run: Delivered, most_bytes: int) -> Iterator[Delivered]:
    """Yields slices up to this size. A larger message is alone."""
    while run.batch.num_rows:
        first = head(run.batch, run.batch.num_rows, most_bytes)
        yield run._replace(batch=first)
        run = run._replace(first=run.first + first.num_rows, batch=run.batch.slice(first.num_rows))


def take_within(runs: Sequence[Delivered], most_bytes: int) -> tuple[list[Delivered], list[Delivered]]:
    """Returns the first messages up to this size, at least one, and the rest."""
    taken: list[Delivered] = []
    left = most_bytes
    for index, run in enumerate(runs):
        if taken and left <= 0:
            return taken, list(runs[index:])
        part = next(split(run, left))
        if taken and part.batch.nbytes > left:
            return taken, list(runs[index:])
        taken.append(part)
        left -= part.batch.nbytes
        if part.end < run.end:
            cut = part.batch.num_rows
            return taken, [run._replace(first=part.end, batch=run.batch.slice(cut)), *runs[index + 1 :]]
    return taken, []


def total_bytes(runs: Sequence[Delivered]) -> int:
    return sum(run.batch.nbytes for run in runs)
