"""Sends SQL to a running Frazil over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

import pyarrow as pa

from frazil.errors import FrazilError, HealthCheckFailed, QueryError
from frazil.web.answers import ARROW_STREAM

_WAIT_SECONDS = 3600.0
"""The client waits long, because the server has its own limits for a query."""


def ask(address: str, text: str, tenant: str | None = None) -> pa.Table:
    headers = {"accept": ARROW_STREAM, "content-type": "text/plain; charset=utf-8"}
    if tenant is not None:
        headers["x-scope-orgid"] = tenant
    request = urllib.request.Request(f"{address}/sql", text.encode(), headers, method="POST")
    # The address is that of the process, so no proxy is used, as in `frazil status`.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_WAIT_SECONDS) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(address, error.code, error.read()) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise HealthCheckFailed(f"no Frazil answers at {address}: {reason}; is `frazil serve` running?") from error
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
