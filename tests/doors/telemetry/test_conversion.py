"""Requests are converted together, and each has its own outcome."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from frazil.doors.telemetry import conversion
from frazil.doors.telemetry.conversion import TelemetryRequest
from frazil.doors.telemetry.refusals import refusal
from frazil.errors import RequestError
from frazil.formats.telemetry.message_decoding import decode
from tests.doors.telemetry.conversion import converter
from tests.formats.loki.support import message


def test_a_request_that_cannot_be_rows_is_refused_without_a_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    entries: list[tuple[int, Any, Any]] = [(1, "", {})]
    good, large = message(({"a": "b"}, entries)), message(({"a": "x" * 1_000_000}, entries * 2000))
    with caplog.at_level(logging.INFO):
        done = converter().convert(
            [TelemetryRequest("a", good), TelemetryRequest("a", large), TelemetryRequest("b", good)]
        )
    assert [request.number for append in done.appends for request in append.requests] == [0, 2]
    assert list(done.problems) == [1]
    assert isinstance(done.problems[1], RequestError)
    assert str(done.problems[1]).startswith("The records would be")
    assert caplog.records
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO]


def test_one_that_is_no_message_does_not_part_the_others(caplog: pytest.LogCaptureFixture) -> None:
    good, other = (message(({"a": text}, [(1, text, {})])) for text in ("good", "other"))
    with caplog.at_level(logging.INFO):
        done = converter().convert(
            [TelemetryRequest("a", good), TelemetryRequest("a", b"\xff" * 9), TelemetryRequest("b", other)]
        )
    (append,) = done.appends
    assert [request.number for request in append.requests] == [0, 2]
    assert isinstance(append.content, pa.RecordBatch)
    assert append.content["body"].to_pylist() == ["good", "other"]
    assert {number: str(problem) for number, problem in done.problems.items()} == {
        1: "The body is no PushRequest: Error parsing message."
    }
    assert [record.levelno for record in caplog.records] == [logging.INFO]


def test_the_log_tells_of_one_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Clients can send invalid messages as often as they like."""
    with caplog.at_level(logging.INFO):
        done = converter().convert([TelemetryRequest("a", b"\xff" * 9)] * 1000)
    assert len(done.problems) == 1000
    assert len(caplog.records) == 1


class Panic(BaseException):
    """A panic that is not an `Exception`, like those of Rust."""


@pytest.mark.parametrize("bad", [{7}, {0, 1, 2, 39}, set(range(40))], ids=["one", "four", "all"])
@pytest.mark.parametrize("failure", [Panic, KeyError])
def test_a_group_that_fails_as_a_whole_is_tried_in_parts(
    monkeypatch: pytest.MonkeyPatch, bad: set[int], failure: type[BaseException]
) -> None:
    bodies = [message(({"a": "b"}, [(1, f"text {number}", {})])) for number in range(40)]
    calls = 0

    def fail_of_some(kind: Any, given: list[bytes]) -> pa.RecordBatch:
        nonlocal calls
        calls += 1
        if any(bodies.index(body) in bad for body in given):
            raise failure("slice index starts at 10 but ends at 9")
        return decode(kind, given)

    monkeypatch.setattr(conversion, "decode", fail_of_some)
    done = converter().convert([TelemetryRequest(f"tenant {number}", body) for number, body in enumerate(bodies)])
    assert set(done.problems) == bad
    assert [request.number for append in done.appends for request in append.requests] == sorted(set(range(40)) - bad)
    for problem in done.problems.values():
        assert refusal(problem).http == (400 if failure is Panic else 503)
        assert "slice" not in str(problem)
        assert failure.__name__ not in str(problem)
    assert calls <= 1 + 2 * 6 * len(bad)


@pytest.mark.parametrize(
    ("step", "failure", "status"),
    [
        ("decode", ValueError("no message"), 400),
        ("decode", MemoryError(), 429),
        ("decode", pa.ArrowMemoryError("malloc of size 8 failed"), 429),
        ("decode", KeyError("a fault of ours"), 503),
        ("decompress", MemoryError(), 429),
        ("size_of", pa.ArrowInvalid("a fault of ours"), 503),
    ],
)
def test_only_what_cannot_be_read_is_refused_for_ever(
    monkeypatch: pytest.MonkeyPatch, step: str, failure: Exception, status: int
) -> None:
    """A client that gets this status drops the request."""

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(conversion, step, fail)
    done = converter().convert([TelemetryRequest("a", message(({"a": "b"}, [(1, "text", {})])))])
    assert refusal(done.problems[0]).http == status
    assert not done.appends
