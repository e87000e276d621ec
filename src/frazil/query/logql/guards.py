"""Defines what bounds a query while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Guard(Protocol):
    """Is asked between two pieces of work. `frazil.engine.interface.QueryContext` is one."""

    def check(self) -> None:
        """Raises an error if the query may not go on."""

    def hold(self, nbytes: int) -> None:
        """Counts memory that the query keeps. Raises an error if that is more than it may."""


class Unbounded:
    """Lets a query do what it likes."""

    def check(self) -> None:
        pass

    def hold(self, nbytes: int) -> None:
        pass


@dataclass(frozen=True)
class Limits:
    """Bounds results, as Loki's settings of the same names do; zero stands for no bound."""

    max_query_series: int = 500
    max_points: int = 11_000
    """The most steps of a range query."""
