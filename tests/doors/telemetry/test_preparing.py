"""Requests are made rows together, and each has its own fate."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from frazil.config.telemetry import TelemetryConfig
from frazil.doors.loki.push import PUSH
from frazil.doors.telemetry import preparing
from frazil.doors.telemetry.limits import Limits
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.preparing import Preparer, Request
from frazil.doors.telemetry.refusals import refusal
from frazil.errors import RequestError
from frazil.ops.metrics import create_registry
from tests.log.support import ManualClock
from tests.telemetry.test_loki import message


def preparer() -> Preparer:
    config, clock = TelemetryConfig(), ManualClock()
    return Preparer(
        PUSH, config, Limits(config, clock.monotonic), TelemetryMetrics(create_registry()), clock, 64 << 20
    )


def test_a_request_that_cannot_be_rows_is_refused_without_a_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    entries: list[tuple[int, Any, Any]] = [(1, "", {})]
    good, large = message(({"a": "b"}, entries)), message(({"a": "x" * 1_000_000}, entries * 2000))
    with caplog.at_level(logging.INFO):
        done = preparer().prepare([Request("a", good), Request("a", large), Request("b", good)])
    assert [request.number for run in done.runs for request in run.requests] == [0, 2]
    assert list(done.problems) == [1]
    assert isinstance(done.problems[1], RequestError)
    assert str(done.problems[1]).startswith("The records would be")
    assert caplog.records
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO]


def test_one_that_is_no_message_does_not_part_the_others(caplog: pytest.LogCaptureFixture) -> None:
    good, other = (message(({"a": text}, [(1, text, {})])) for text in ("good", "other"))
    with caplog.at_level(logging.INFO):
        done = preparer().prepare([Request("a", good), Request("a", b"\xff" * 9), Request("b", other)])
    (run,) = done.runs
    assert [request.number for request in run.requests] == [0, 2]
    assert isinstance(run.content, pa.RecordBatch)
    assert run.content["body"].to_pylist() == ["good", "other"]
    assert {number: str(problem) for number, problem in done.problems.items()} == {
        1: "The body is no PushRequest: Error parsing message."
    }
    assert not caplog.records


@pytest.mark.parametrize(
    ("step", "failure", "status"),
    [
        ("decode", ValueError("no message"), 400),
        ("decode", MemoryError(), 429),
        ("decode", pa.ArrowMemoryError("malloc of size 8 failed"), 429),
        ("decode", KeyError("a fault of ours"), 503),
        ("expand", MemoryError(), 429),
        ("size_of", pa.ArrowInvalid("a fault of ours"), 503),
    ],
)
def test_only_what_cannot_be_read_is_refused_for_ever(
    monkeypatch: pytest.MonkeyPatch, step: str, failure: Exception, status: int
) -> None:
    """Whoever is told so drops it."""

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(preparing, step, fail)
    done = preparer().prepare([Request("a", message(({"a": "b"}, [(1, "text", {})])))])
    assert refusal(done.problems[0]).http == status
    assert not done.runs
