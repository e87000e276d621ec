"""What tests beside this share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from frazil.scan.read_api import read
from tests.doors.telemetry.process import DoorProcess
from tests.doors.telemetry.support import (
    PROTOBUF,
    TIME,
    logs_request,
)


class Door(DoorProcess):
    def __init__(self, folder: Path, hold_ms: int | None, **telemetry: Any) -> None:
        """With `hold_ms`, accepted requests are held so long before the store acknowledges them."""
        # Stored rows are kept in memory too, as far as these settings allow.
        log: dict[str, Any] = {"max_tail_mb": 32, "seal": {"max_mb": 8}}
        topics = {}
        if hold_ms is not None:
            log["linger_ms"], topics = hold_ms, {"logs": {"ack": "object"}}
        super().__init__(folder, telemetry=telemetry, log=log, topics=topics, buffer={"max_size_mb": 32})
        self.url = f"http://127.0.0.1:{self.ports.http}/v1/logs"

    def stored(self) -> Counter[str]:
        """Returns the number of records of each service."""
        found = read("logs", config=self.config, columns=["service_name"]).table()["service_name"].value_counts()
        return Counter({each["values"].as_py(): each["counts"].as_py() for each in found})


@contextmanager
def door(folder: Path, hold_ms: int | None = None, **telemetry: Any) -> Iterator[Door]:
    opened = Door(folder, hold_ms, **telemetry)
    try:
        until = time.monotonic() + 60
        while not listens(opened.url):
            assert opened.child.alive, opened.child.log()
            assert time.monotonic() < until, opened.child.log()
            time.sleep(0.05)
        yield opened
    finally:
        opened.stop()


def listens(url: str) -> bool:
    try:
        # The first request opens the topic.
        return httpx.post(url, content=request("first", 1), headers=PROTOBUF, timeout=30).status_code == 200
    except httpx.TransportError:
        return False


RECORDS = 100


_LINE = "the order is late and nobody knows why, so somebody should have a look at it " * 3


def request(service: str, blocks: int) -> bytes:
    """Returns a body with `blocks` times `RECORDS` records, of about 25 KiB each block."""
    block: bytes = logs_request(*[_LINE] * RECORDS, time=TIME, service=service).SerializeToString()
    return block * blocks
