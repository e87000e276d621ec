"""Counts queries, what they cost and why some were refused; and logs those that take long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from frazil.engine.exchange import Exchange
from frazil.engine.interface import QueryRequest
from frazil.errors import (
    QueriesBusy,
    QueryProcessDied,
    QueryTimeout,
    QueryTooLarge,
    RequestCancelled,
    RequestError,
    ShutdownError,
)

logger = logging.getLogger(__name__)

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SHOWN = 500
"""So many characters of a query are logged."""

_REASONS: dict[str, tuple[type[BaseException], ...]] = {
    "timeout": (QueryTimeout,),
    "too_large": (QueryTooLarge,),
    "busy": (QueriesBusy,),
    "process_died": (QueryProcessDied,),
    "stopped": (ShutdownError, RequestCancelled, asyncio.CancelledError),
    "invalid": (RequestError,),
    "failed": (BaseException,),
}


class QueryMetrics:
    def __init__(
        self,
        registry: CollectorRegistry,
        slow_seconds: float,
        *,
        running: Callable[[], int],
        waiting: Callable[[], int],
        processes: Callable[[], int],
    ) -> None:
        self._slow_seconds = slow_seconds
        self._seconds = Histogram(
            "frazil_query_seconds", "Time of queries with their wait.", ["port"], buckets=_BUCKETS, registry=registry
        )
        self._queue = Histogram(
            "frazil_query_queue_seconds",
            "Time that queries waited for their turn.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._failed = Counter(
            "frazil_query_failures", "Queries without an answer, by reason.", ["port", "reason"], registry=registry
        )
        self._read = Counter("frazil_query_read_bytes", "Bytes that queries read.", ["port"], registry=registry)
        self._rows = Counter("frazil_query_read_rows", "Rows that queries read.", ["port"], registry=registry)
        self._cache = Counter(
            "frazil_query_cache", "Values that queries looked for in caches.", ["result"], registry=registry
        )
        for name, text, count in (
            ("running", "Queries that run now.", running),
            ("waiting", "Queries that wait for their turn.", waiting),
            ("processes", "Processes for queries.", processes),
        ):
            Gauge(f"frazil_query_{name}", text, registry=registry).set_function(count)

    def refused(self, request: QueryRequest, error: BaseException | None) -> None:
        """Counts a query that failed before its answer began."""
        self._failed.labels(request.port, _reason(error)).inc()

    def ended(self, exchange: Exchange, queue_seconds: float, seconds: float) -> None:
        request, cost = exchange.question.request, exchange.statistics
        self._seconds.labels(request.port).observe(seconds)
        self._queue.observe(queue_seconds)
        self._read.labels(request.port).inc(cost.bytes_read)
        self._rows.labels(request.port).inc(cost.rows_read)
        self._cache.labels("hit").inc(cost.cache_hits)
        self._cache.labels("miss").inc(cost.cache_misses)
        if exchange.begun and exchange.failure is not None:
            self._failed.labels(request.port, _reason(exchange.failure)).inc()
        if seconds >= self._slow_seconds:
            self._log(exchange, queue_seconds, seconds)

    def _log(self, exchange: Exchange, queue_seconds: float, seconds: float) -> None:
        request, cost = exchange.question.request, exchange.statistics
        logger.warning(
            "a query took long",
            extra={
                "seconds": round(seconds, 3),
                "queue_seconds": round(queue_seconds, 3),
                "port": request.port,
                "path": request.path,
                "tenants": "|".join(request.tenants),
                "query": request.query[:_SHOWN] or request.body[:_SHOWN].decode("utf-8", "replace"),
                "read_bytes": cost.bytes_read,
                "read_rows": cost.rows_read,
                "rows_out": cost.rows_out,
                "outcome": "answered" if exchange.failure is None else _reason(exchange.failure),
            },
        )


def _reason(error: BaseException | None) -> str:
    return next(name for name, kinds in _REASONS.items() if isinstance(error, kinds))
