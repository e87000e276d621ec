"""Sends requests about topics to a running Frazil over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from frazil.errors import (
    FrazilError,
    HealthCheckFailed,
    OffsetGone,
    RecordTooLarge,
    RequestError,
    TopicNotFound,
)

_TIMEOUT_SECONDS = 60.0

Query = Mapping[str, object]


class ServerUnreachable(HealthCheckFailed):
    """Raised when no Frazil answers, so that nothing was done."""


class ConnectionLost(HealthCheckFailed):
    """Raised when the connection breaks, so that it is not known whether the request was carried out."""


class TemporarilyRefused(FrazilError):
    """Raised when a Frazil cannot do what was asked, but may be able to later: it is full, starting or stopping."""

    retryable = True


class TopicsClient:
    """Holds one connection, and sends one request after the other over it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.address = address
        self._base = parts.path
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return its answer, which is JSON."""
        with self._answer(method, path, query or {}, body, headers or {}) as answer:
            try:
                return json.loads(self._read(answer))
            except ValueError as error:
                raise HealthCheckFailed(f"what answers at {self.address} is not Frazil") from error

    @contextmanager
    def lines(self, path: str, query: Query, headers: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """Yields the lines of an answer as they come, until it ends."""
        with self._answer("GET", path, query, None, headers) as answer:
            yield self._lines(answer)

    def _lines(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        while True:
            try:
                line = answer.readline()
            except (OSError, http.client.HTTPException) as error:
                raise self._lost(error) from error
            if not line:
                return
            yield line

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error

    @contextmanager
    def _answer(
        self, method: str, path: str, query: Query, body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        asked = f"{self._base}{path}{'?' if query else ''}{urlencode(query)}"
        try:
            if self._connection.sock is None:
                self._connection.connect()
        except OSError as error:
            raise ServerUnreachable(
                f"no Frazil answers at {self.address}: {error}. Start it with `frazil serve`, or tell where it is "
                f"with --url."
            ) from error
        try:
            self._connection.request(method, asked, body, dict(headers))
            answer = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._lost(error) from error
        try:
            if answer.status >= 300:
                raise self._refused(answer.status, self._read(answer))
            yield answer
        except BaseException:
            self.close()
            raise

    def _lost(self, error: Exception) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.address} is lost: {error or type(error).__name__}")

    def _refused(self, status: int, body: bytes) -> FrazilError:
        try:
            problem = json.loads(body)
            reason = str(problem["error"])
        except (ValueError, TypeError, KeyError):
            return HealthCheckFailed(f"{self.address} answered with status {status}; is it a Frazil with topics?")
        match status:
            case 404:
                return TopicNotFound(reason.removesuffix(" PUT /topics/NAME creates a topic."))
            case 410:
                return OffsetGone(int(problem.get("first_offset", 0)), reason)
            case 413:
                return RecordTooLarge(reason)
            case 429 | 503:
                return TemporarilyRefused(reason)
        return RequestError(reason) if status < 500 else FrazilError(reason)


def path_of(topic: str, *more: str) -> str:
    """Returns the path of a topic. Danube's `/namespace/name` is `namespace.name` there."""
    if not topic or "/" in topic:
        from frazil.topics.names import parse_name

        name = parse_name(topic)
        part = "" if name.partition is None else f"-part-{name.partition}"
        topic = f"{name.namespace}.{name.name}{part}"
    return "/".join(("/topics", quote(topic, safe=""), *more))
