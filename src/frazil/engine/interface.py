"""Defines how the serving process and a query process speak of a query: a request in, pieces of a reply out.

An API over HTTP is a list of `QueryRoute`s. Their functions run in a query process; the serving process passes
requests in and streams replies out, and knows nothing of the language.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from frazil.config.model import Config
from frazil.scan.interface import Scanner

T = TypeVar("T")


@dataclass(frozen=True)
class QueryRequest:
    """Is one request over HTTP, as it goes to a query process."""

    method: str
    path: str
    path_parameters: Mapping[str, str]
    query: str
    """The query string as it came, without the question mark."""
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: bytes
    tenants: tuple[str, ...]
    """Whose rows may be seen: one tenant, or several where that is allowed."""
    port: str
    """The name of the port at which it came."""


@dataclass(frozen=True)
class Reply:
    """Is the answer to a request. The body is made piece by piece, while it is sent."""

    status: int
    headers: Mapping[str, str]
    body: Iterable[bytes]


@dataclass
class QueryStatistics:
    """Counts what one query cost. Each language tells it in its own shape.

    What its scans read is counted without its help; a query counts `rows_out`, and what it reads otherwise.
    """

    rows_read: int = 0
    bytes_read: int = 0
    rows_out: int = 0
    units: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    queue_seconds: float = 0.0
    complete: bool = True
    """False if the newest rows may be missing, because a tail of the log is on another machine."""
    notes: dict[str, str] = field(default_factory=dict)


class Cache(Protocol):
    """Keeps what is made of immutable rows, within the memory of the process. Keys have the tenant in them where the
    value depends on it."""

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Returns what is kept under the key, else makes it and keeps it, if there is room."""


class QueryContext(Protocol):
    """Is what a query may use, and what bounds it."""

    @property
    def config(self) -> Config: ...

    @property
    def scanner(self) -> Scanner:
        """Returns what makes scans for this query: they stop when it must, and count for it what they read."""

    @property
    def cache(self) -> Cache: ...

    @property
    def statistics(self) -> QueryStatistics: ...

    def check(self) -> None:
        """Raises an error if the client has gone, or the query has taken more time or memory than it may.

        Queries call it between units, and at least every few ten milliseconds of work.
        """

    def hold(self, nbytes: int) -> None:
        """Counts memory that the query keeps until it ends. Raises `QueryTooLarge` if that is more than it may."""


Answer = Callable[[QueryRequest, QueryContext], Reply]


@dataclass(frozen=True)
class QueryRoute:
    """Is one endpoint of a query API."""

    path: str
    """With names in braces, as in `/loki/api/v1/label/{name}/values`."""
    answer: str
    """Names an `Answer` that the query process imports, as `package.module:function`."""
    methods: tuple[str, ...] = ("GET",)
    summary: str = ""
