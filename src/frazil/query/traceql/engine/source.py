"""Says where spans come from: whoever has some can be asked queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from frazil.scan.predicates.tree import Predicate


@dataclass(frozen=True)
class SpanBatch:
    read: Callable[[], pa.Table]
    latest_ns: int
    """No span of this batch, nor of a later one, starts after this moment."""
    key: Hashable = None
    """Names the spans if they never change and are always returned together, for caches."""

    @cached_property
    def spans(self) -> pa.Table:
        return self.read()


class SpanSource(Protocol):
    def batches(
        self, start_ns: int, end_ns: int, where: Predicate | None, columns: Sequence[str]
    ) -> Iterator[SpanBatch]:
        """Yields spans that start at `start_ns` or later and before `end_ns`, about the newest first.

        Spans for which `where` is not true may be missing, or not.
        """

    def traces(
        self, ids: Sequence[bytes], start_ns: int | None, end_ns: int | None, columns: Sequence[str]
    ) -> pa.Table:
        """Returns all spans of some traces that start in this time, in any order."""


class Budget(Protocol):
    """Bounds a query: it is asked between two batches."""

    def check(self) -> None: ...

    def hold(self, nbytes: int) -> None: ...
