"""Counts, times and logs the requests to the endpoints of all ports."""

from __future__ import annotations

import logging
import time
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import Message, Scope, Send

logger = logging.getLogger(__name__)

NO_ROUTE = "none"
"""Paths that are not served share one series, because strangers choose them."""
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_GONE = 499


class RequestMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "frazil_http_requests",
            "HTTP requests by port, route, method and status of the answer, but for those that bring telemetry: they "
            "are frazil_telemetry_requests_total.",
            ["port", "route", "method", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "frazil_http_request_seconds",
            "Time from the headers of a request to the last byte of its answer.",
            ["port", "route", "method"],
            buckets=_BUCKETS,
            registry=registry,
        )

    def count(self, port: str, route: str, method: str, status: int, seconds: float) -> None:
        method = method if method in _METHODS else "other"
        self._requests.labels(port, route, method, str(status)).inc()
        self._seconds.labels(port, route, method).observe(seconds)


class Measured:
    """Watches the answer to one request. `send` is to be used in place of the server's."""

    def __init__(self, metrics: RequestMetrics, port: str, route: str, scope: Scope, send: Send) -> None:
        self._metrics = metrics
        self._port = port
        self._route = route
        self._scope = scope
        self._send = send
        self._started = time.monotonic()
        self.status: int | None = None
        """The status of the answer, once it has begun."""
        self._nbytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self._nbytes += len(message.get("body", b""))
        await self._send(message)

    def end(self) -> None:
        seconds = time.monotonic() - self._started
        method, status = self._scope["method"], CLIENT_GONE if self.status is None else self.status
        self._metrics.count(self._port, self._route, method, status, seconds)
        if logger.isEnabledFor(logging.DEBUG):
            fields = {
                "port": self._port,
                "method": method,
                "path": self._scope["path"],
                "status": status,
                "bytes": self._nbytes,
                "seconds": round(seconds, 6),
            }
            logger.debug("request", extra=fields)


_METRICS: WeakKeyDictionary[CollectorRegistry, RequestMetrics] = WeakKeyDictionary()


def request_metrics(registry: CollectorRegistry) -> RequestMetrics:
    """Returns the metrics, which all ports of a process share."""
    found = _METRICS.get(registry)
    if found is None:
        found = _METRICS[registry] = RequestMetrics(registry)
    return found
