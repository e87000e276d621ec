"""Builds push requests, and runs a door for them."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa

from tests.doors.telemetry.support import JSON, TIME, Served
from tests.formats.loki.support import message

PATH = "/loki/api/v1/push"


def snappy(body: bytes) -> bytes:
    compressed: bytes = pa.compress(body, "snappy", asbytes=True)
    return compressed


def push_body(*lines: str, labels: Any = None, time: int = TIME) -> bytes:
    """Returns a request with an entry for each line, a nanosecond apart."""
    entries: list[tuple[int, Any, Any]] = [(time + n if time else 0, line, {}) for n, line in enumerate(lines)]
    return snappy(message((labels if labels is not None else {"app": "shop"}, entries)))


async def push(served: Served, body: bytes, **headers: str) -> httpx.Response:
    return await served.post(PATH, body, api="loki", **headers)


async def push_json(served: Served, body: bytes, **headers: str) -> httpx.Response:
    return await push(served, body, **{**JSON, **headers})
