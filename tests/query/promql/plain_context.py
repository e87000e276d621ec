"""Has a context for queries in this process, without limits, over a topic that a test fills."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from frazil.config.model import Config
from frazil.engine.interface import QueryStatistics
from frazil.scan.interface import Scanner

T = TypeVar("T")


class KeptForever:
    """Is a cache without a limit."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        if key not in self.kept:
            made = make()
            assert size(made) >= 0
            self.kept[key] = made
        found: T = self.kept[key]
        return found


@dataclass
class PlainContext:
    """Is what a query may use, without limits."""

    config: Config
    scanner: Scanner
    cache: KeptForever = field(default_factory=KeptForever)
    statistics: QueryStatistics = field(default_factory=QueryStatistics)

    def check(self) -> None:
        return

    def hold(self, nbytes: int) -> None:
        assert nbytes >= 0
