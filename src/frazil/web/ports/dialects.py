"""Shows errors as the clients of each port expect them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import orjson
from starlette.responses import Response

from frazil.web.answers import problem, refused
from frazil.web.failures import (
    BUSY,
    CANCELLED,
    INTERNAL,
    INVALID,
    NOT_FOUND,
    TENANT_TOO_MUCH,
    TIMEOUT,
    TOO_COSTLY,
    UNAVAILABLE,
    Failure,
    FailureKind,
    failure_of,
)
from frazil.web.ports.contributions import LOKI, OPERATIONS, OTLP, PROMETHEUS, TEMPO

_TEXT = "text/plain; charset=utf-8"
_NOSNIFF = {"x-content-type-options": "nosniff"}


class Dialect(Protocol):
    """What differs between ports in answers that are no success."""

    answers_head: bool
    """Whether a path that is served for GET is served for HEAD too."""

    def failed(self, error: BaseException) -> Response: ...

    def no_such_path(self) -> Response: ...

    def wrong_method(self, method: str, allowed: Iterable[str]) -> Response:
        """Answers a request to a path that is served for other methods."""


class FrazilDialect:
    """Answers with a JSON object that has `error`, and perhaps more."""

    answers_head = True

    def failed(self, error: BaseException) -> Response:
        return refused(error)

    def no_such_path(self) -> Response:
        return problem(404, "Nothing is served at this path. GET / lists what is.")

    def wrong_method(self, method: str, allowed: Iterable[str]) -> Response:
        names = ", ".join(sorted(allowed))
        response = problem(405, f"This path is served for {names}, not for {method[:20]}.")
        response.headers["allow"] = names
        return response


class PlainDialect:
    """Answers as Go's servers do, with the reason as plain text, for Loki and Tempo."""

    answers_head = False

    def failed(self, error: BaseException) -> Response:
        return plain_error(failure_of(error))

    def no_such_path(self) -> Response:
        return Response("404 page not found\n", 404, _NOSNIFF, _TEXT)

    def wrong_method(self, method: str, allowed: Iterable[str]) -> Response:
        return Response(status_code=405, headers={"allow": ", ".join(sorted(allowed))})


class OtlpDialect(PlainDialect):
    """Says in words what is wrong with the path or the method. OTLP leaves that open."""

    def no_such_path(self) -> Response:
        return Response("Not Found", 404, media_type=_TEXT)

    def wrong_method(self, method: str, allowed: Iterable[str]) -> Response:
        return Response("Method Not Allowed", 405, {"allow": ", ".join(sorted(allowed))}, _TEXT)


class PrometheusDialect(PlainDialect):
    """Answers errors with the JSON envelope of Prometheus."""

    def failed(self, error: BaseException) -> Response:
        return prometheus_error(failure_of(error))

    def wrong_method(self, method: str, allowed: Iterable[str]) -> Response:
        headers = {"allow": ", ".join(sorted({*allowed, "OPTIONS"}))}
        return Response(status_code=204 if method == "OPTIONS" else 405, headers=headers)


_DIALECTS: Mapping[str, Dialect] = {
    OPERATIONS: FrazilDialect(),
    OTLP: OtlpDialect(),
    LOKI: PlainDialect(),
    PROMETHEUS: PrometheusDialect(),
    TEMPO: PlainDialect(),
}


def dialect_of(port: str) -> Dialect:
    return _DIALECTS[port]


def plain_error(failure: Failure) -> Response:
    """Shows an error as Loki and Tempo do: the reason alone, as text."""
    return Response(failure.reason, failure.http, {**_NOSNIFF, **failure.headers}, _TEXT)


_PROMETHEUS: Mapping[FailureKind, tuple[int, str]] = {
    INVALID: (400, "bad_data"),
    TOO_COSTLY: (422, "execution"),
    NOT_FOUND: (404, "not_found"),
    CANCELLED: (499, "canceled"),
    TIMEOUT: (503, "timeout"),
    INTERNAL: (500, "internal"),
    UNAVAILABLE: (503, "unavailable"),
    BUSY: (429, "unavailable"),
    TENANT_TOO_MUCH: (429, "unavailable"),
}


def prometheus_error(failure: Failure) -> Response:
    """Shows an error as Prometheus does. Kinds that it does not know keep their status."""
    status, kind = _PROMETHEUS.get(failure.kind) or (
        failure.http,
        "bad_data" if failure.http < 500 else "internal",
    )
    body = orjson.dumps({"status": "error", "errorType": kind, "error": failure.reason})
    return Response(body, status, failure.headers, "application/json")
