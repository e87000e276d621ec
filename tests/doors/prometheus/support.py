"""Builds remote write requests for the door."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa

from frazil.formats.remote_write.messages import WriteRequest
from tests.doors.telemetry.support import Served
from tests.formats.remote_write.support import TIME_MS, add

PATH = "/api/v1/write"
TYPE_2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
"""The content type of remote write 2.0 requests."""


def samples(*values: float, time: int = TIME_MS, name: str = "up", **labels: str) -> Any:
    """Returns a request with a sample for each value, a millisecond apart."""
    request = WriteRequest()
    add(request, *((value, time + number if time else 0) for number, value in enumerate(values)), name=name, **labels)
    return request


def packed(body: bytes) -> bytes:
    found: bytes = pa.compress(body, "snappy", asbytes=True)
    return found


async def write(served: Served, request: Any, **headers: str) -> httpx.Response:
    """Sends a request as Prometheus does."""
    body = request if isinstance(request, bytes) else request.SerializeToString()
    told = {
        "content_encoding": "snappy",
        "user_agent": "Prometheus/2.42.0",
        "x_prometheus_remote_write_version": "0.1.0",
        **headers,
    }
    return await served.post(PATH, packed(body), "prometheus", **told)
