"""Sends SQL to a running Frazil over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from frazil.errors import FrazilError, HealthCheckFailed, QueryError
from frazil.ops.http_client import HttpClient, RequestFailed
from frazil.web.answers import ARROW_STREAM

_WAIT_SECONDS = 3600.0
"""The client waits long, because the server has its own limits for a query."""


def ask(address: str, text: str, tenant: str | None = None) -> pa.Table:
    headers = {"accept": ARROW_STREAM, "content-type": "text/plain; charset=utf-8"}
    if tenant is not None:
        headers["x-scope-orgid"] = tenant
    client = HttpClient(address, _WAIT_SECONDS)
    try:
        with client.ask("POST", "/sql", text.encode(), headers) as answer:
            status, body = answer.status, answer.read()
    except RequestFailed as error:
        raise HealthCheckFailed(f"no Frazil answers at {address}: {error}; is `frazil serve` running?") from error
    finally:
        client.close()
    if status >= 300:
        raise _refused(address, status, body)
    try:
        return pa.ipc.open_stream(body).read_all()
    except pa.ArrowInvalid as error:
        raise HealthCheckFailed(f"what answers at {address} is not Frazil") from error


def _refused(address: str, status: int, body: bytes) -> FrazilError:
    try:
        problem: dict[str, Any] = json.loads(body)
        reason = str(problem["error"])
    except (ValueError, TypeError, KeyError):
        return HealthCheckFailed(f"{address} answered with status {status}; is it a Frazil that answers SQL?")
    return QueryError(reason, problem.get("line"), problem.get("column")) if status < 500 else FrazilError(reason)
