"""Invalid ids are null, and metrics show how many there were."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from frazil.doors.otlp.signals import LOGS, SPANS, Signal
from frazil.scan.read_api import read
from tests.doors.telemetry.process import DoorProcess
from tests.doors.telemetry.support import JSON, PROTOBUF, TIME, logs_request

WAIT_SECONDS = 60.0


class Door(DoorProcess):
    def metrics(self) -> str:
        """Returns the metrics as they are scraped."""
        until = time.monotonic() + WAIT_SECONDS
        while not (found := re.search(r"health at (http://\S+)/health", self.child.log())):
            assert self.child.alive, self.child.log()
            assert time.monotonic() < until, self.child.log()
            time.sleep(0.05)
        return httpx.get(f"{found[1]}/metrics", timeout=30).text

    def invalid_ids(self) -> dict[str, float]:
        """Returns the counts by topic."""
        found = re.findall(r'^frazil_telemetry_invalid_ids_total{topic="(\w+)"} (\S+)', self.metrics(), re.M)
        return {topic: float(count) for topic, count in found if float(count)}

    def send(self, signal: Signal, body: bytes, headers: dict[str, str]) -> None:
        url = f"http://127.0.0.1:{self.ports.http}{signal.path}"
        answer = httpx.post(url, content=body, headers=headers, timeout=30)
        assert (answer.status_code, answer.content.strip(b"{}")) == (200, b"")


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path / "door")
    yield door
    door.stop()


def test_they_are_counted_where_metrics_are_scraped(door: Door) -> None:
    assert door.invalid_ids() == {}
    logs = logs_request("valid", "short", "only zeros")
    for record, trace_id in zip(
        logs.resource_logs[0].scope_logs[0].log_records, (b"t" * 16, b"t", bytes(16)), strict=True
    ):
        record.trace_id, record.span_id = trace_id, b"s" * 8
    door.send(LOGS, logs.SerializeToString(), PROTOBUF)
    assert door.invalid_ids() == {"logs": 2}

    span = {"startTimeUnixNano": str(TIME), "traceId": "ab" * 16, "spanId": "abcd", "parentSpanId": "ab" * 9}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    door.send(SPANS, body, JSON)
    assert door.invalid_ids() == {"logs": 2, "spans": 2}

    # The stored rows have none of them.
    found = read("logs", config=door.config).table().select(["body", "trace_id", "span_id"]).to_pylist()
    assert [row["body"] for row in found if row["trace_id"] is not None] == ["valid"]
    assert {row["span_id"] for row in found} == {b"s" * 8}
    (row,) = read("spans", config=door.config).table().to_pylist()
    assert (row["trace_id"].hex(), row["span_id"], row["parent_span_id"]) == ("ab" * 16, None, None)
