"""Sends requests about topics to a running Frazil over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from frazil.errors import (
    FrazilError,
    HealthCheckFailed,
    OffsetGone,
    RecordTooLarge,
    RequestError,
    TopicNotFound,
)
from frazil.ops.http_client import Answer, HttpClient, RequestFailed, Unreachable

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
        self.address = address
        self._client = HttpClient(address, _TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        self._client.close()

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
                return json.loads(answer.read())
            except ValueError as error:
                raise HealthCheckFailed(f"what answers at {self.address} is not Frazil") from error

    @contextmanager
    def lines(self, path: str, query: Query, headers: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """Yields the lines of an answer as they come, until it ends."""
        with self._answer("GET", path, query, None, headers) as answer:
            yield answer.lines()

    @contextmanager
    def _answer(
        self, method: str, path: str, query: Query, body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[Answer]:
        asked = f"{path}{'?' if query else ''}{urlencode(query)}"
        try:
            with self._client.ask(method, asked, body, headers) as answer:
                if answer.status >= 300:
                    raise self._refused(answer.status, answer.read())
                yield answer
        except Unreachable as error:
            raise ServerUnreachable(
                f"no Frazil answers at {self.address}: {error}. Start it with `frazil serve`, or tell where it is "
                f"with --url."
            ) from error
        except RequestFailed as error:
            raise ConnectionLost(f"the connection to {self.address} is lost: {error}") from error
        except BaseException:
            self.close()
            raise

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
