"""Decides whose turn it is: tenants in turn, and of each tenant the query that came first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Is a queue that is fair between tenants: one with many queries does not hold back the others."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, list[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[T]:
        return (query for queries in self._waiting.values() for query in queries)

    def waiting(self, tenant: Hashable) -> int:
        return len(self._waiting.get(tenant, ()))

    def add(self, tenant: Hashable, query: T) -> None:
        self._waiting.setdefault(tenant, []).append(query)

    def next(self, may_run: Callable[[T], bool]) -> T | None:
        """Returns the query whose turn it is among those that may run now. It stays in the queue."""
        return next(filter(may_run, self), None)

    def take(self, tenant: Hashable, query: T) -> None:
        """Removes a query that had its turn: the other tenants come next."""
        self.remove(tenant, query)
        if tenant in self._waiting:
            self._waiting.move_to_end(tenant)

    def remove(self, tenant: Hashable, query: T) -> None:
        """Removes a query that waits no more."""
        queries = self._waiting[tenant]
        queries.remove(query)
        if not queries:
            del self._waiting[tenant]
