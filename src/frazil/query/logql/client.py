"""Asks a running Frazil for log lines, over Loki's API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from frazil.errors import FrazilError, HealthCheckFailed, QueryError
from frazil.ops.http_client import Answer, HttpClient, RequestFailed

_WAIT_SECONDS = 3600.0
"""The client waits long, because the server has its own limits for a query."""

Parameters = Mapping[str, object]
_RANGE = "/loki/api/v1/query_range"
_INSTANT = "/loki/api/v1/query"
_TAIL = "/loki/api/v1/tail"


class LokiClient:
    def __init__(self, address: str, tenant: str | None = None) -> None:
        self._address = address
        self._client = HttpClient(address, _WAIT_SECONDS, {} if tenant is None else {"x-scope-orgid": tenant})

    def close(self) -> None:
        self._client.close()

    def lines(self, parameters: Parameters) -> dict[str, Any]:
        """Returns streams of lines, or series of samples, as the query says."""
        return self._data(_RANGE, parameters)

    def samples(self, parameters: Parameters) -> dict[str, Any]:
        """Returns the samples of a metric query at one moment."""
        return self._data(_INSTANT, parameters)

    def frames(self, parameters: Parameters) -> Iterator[dict[str, Any]]:
        """Yields frames of lines as they come, until the server ends."""
        with self._answer(_TAIL, parameters, {"accept": "application/x-ndjson"}) as answer:
            for line in answer.lines():
                if line.strip():
                    yield json.loads(line)

    def _data(self, path: str, parameters: Parameters) -> dict[str, Any]:
        with self._answer(path, parameters, {}) as answer:
            try:
                found: dict[str, Any] = json.loads(answer.read())["data"]
            except (ValueError, KeyError, TypeError) as error:
                raise HealthCheckFailed(f"what answers at {self._address} is not Loki's API") from error
        return found

    @contextmanager
    def _answer(self, path: str, parameters: Parameters, headers: Mapping[str, str]) -> Iterator[Answer]:
        try:
            with self._client.ask("GET", f"{path}?{urlencode(parameters)}", headers=headers) as answer:
                if answer.status >= 300:
                    reason = answer.read().decode(errors="replace").strip() or f"status {answer.status}"
                    raise QueryError(reason) if answer.status < 500 else FrazilError(reason)
                yield answer
        except RequestFailed as error:
            raise HealthCheckFailed(
                f"no Loki API answers at {self._address}: {error}. Start it with `frazil serve`, or tell where it is "
                f"with --url."
            ) from error
