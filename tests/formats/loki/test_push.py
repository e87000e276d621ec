"""Loki's entries become rows of a table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import RequestError
from frazil.formats.loki.messages import PushRequest
from frazil.formats.otlp import logs
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.row_messages import Row, resource_of, scope_of
from frazil.formats.telemetry.rows import Arrival, Rejected
from tests.formats.loki.support import (
    NOW,
    message,
    plain,
    requests,
    rows_of,
)


def one(labels: Any, pairs: Any) -> Row:
    (row,) = plain(rows_of(message((labels, [(1, "a line", pairs)]))))
    return row


@given(given=st.lists(requests, min_size=1, max_size=3))
def test_all_of_it_comes_back(given: list[list[tuple[dict[str, str], list[Any]]]]) -> None:
    rows = rows_of(*(message(*request) for request in given))
    expected = [
        (number, labels, *entry)
        for number, request in enumerate(given)
        for labels, of_stream in request
        for entry in of_stream
    ]
    assert rows.requests.tolist() == [number for number, *_ in expected]
    assert (rows.timeless, rows.rejected) == (frozenset(), {})
    for row, (number, labels, time, line, pairs) in zip(plain(rows), expected, strict=True):
        assert row["tenant_id"] == f"tenant-{number}"
        assert row["resource_attributes"] == sorted(labels.items())
        assert row["body"] == line
        assert dict(row["attributes"]) == dict(pairs)
        assert len(row["attributes"]) == len(dict(pairs))
        assert (row["timestamp"], row["ingested_timestamp"]) == (time, NOW)


def test_a_row_is_as_one_of_a_resource_without_a_scope() -> None:
    """So whoever reads the table, or sends it on, need not know by which protocol a record came."""
    row = one({"app": "shop"}, {"a": "b"})
    sent = logs.to_message(row)
    assert (sent.time_unix_nano, sent.body.string_value) == (1, "a line")
    assert [(pair.key, pair.value.string_value) for pair in sent.attributes] == [("a", "b")]
    assert (sent.severity_number, sent.severity_text, sent.trace_id, sent.span_id) == (0, "", b"", b"")
    resource = resource_of(row)
    assert resource is not None
    assert [(pair.key, pair.value.string_value) for pair in resource.attributes] == [("app", "shop")]
    assert scope_of(row) is None
    request = logs.REQUEST()
    level = request.resource_logs.add(resource=resource)
    level.scope_logs.add().log_records.append(sent)
    (same,) = plain(logs.to_rows(decode(logs.REQUEST, [request.SerializeToString()]), Arrival(["tenant-0"], NOW)))
    assert same == {**row, "service_name": None, "ingest_protocol": "otlp"}


@pytest.mark.parametrize(("seconds", "nanos"), [(0, 0), (-1, 5), (2**62, 0), (5, -1), (5, 10**9), (-62135596800, 0)])
def test_no_time_is_that_of_arrival(seconds: int, nanos: int) -> None:
    made = PushRequest()
    made.streams.add().entries.add(timestamp={"seconds": seconds, "nanos": nanos})
    rows = rows_of(message(({}, [(5, "a", {})])), made.SerializeToString(), message(({}, [(0, "a", {})])))
    assert [row["timestamp"] for row in plain(rows)] == [5, NOW, NOW]
    assert rows.timeless == {1, 2}


def test_bytes_that_are_no_text() -> None:
    rows = rows_of(message((b'{a="\xff"}', [(1, b"caf\xe9", {b"\xfe": b"\xfd"}), (2, "caf\u00e9", {})])))
    first, second = plain(rows)
    assert (first["body"], second["body"]) == ("caf\N{REPLACEMENT CHARACTER}", "caf\u00e9")
    assert first["attributes"] == [("\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}")]
    assert first["resource_attributes"] == [("a", "\N{REPLACEMENT CHARACTER}")]


@pytest.mark.parametrize(
    ("labels", "pairs", "text", "number"),
    [
        ({"level": "Warning"}, {}, "Warning", 13),
        ({}, {"level": "trace"}, "trace", 1),
        ({}, {"detected_level": "debug"}, "debug", 5),
        ({}, {"severity": "INFO"}, "INFO", 9),
        ({}, {"lvl": "err"}, "err", 17),
        ({}, {"Severity": "CRITICAL"}, "CRITICAL", 21),
        ({"level": "error"}, {"level": "info"}, "error", 17),
        ({"level": ""}, {"level": "", "severity": "info"}, "info", 9),
        ({}, {"detected_level": "info", "severity": "warn", "level": "error"}, "error", 17),
        ({}, {"level": "loud"}, "loud", 0),
        ({"app": "level"}, {"a": "error"}, "", 0),
    ],
)
def test_levels(labels: dict[str, str], pairs: dict[str, str], text: str, number: int) -> None:
    row = one(labels, pairs)
    assert (row["severity_text"], row["severity_number"]) == (text, number)
    assert dict(row["attributes"]) == pairs


def test_levels_of_many_entries() -> None:
    """Each entry has its own metadata, whatever other entries and streams have."""
    rows = rows_of(
        message(
            ({"level": "warn"}, [(1, "a", {}), (2, "b", {"level": "info"})]),
            ({}, [(3, "c", {"x": "y", "level": "error"}), (4, "d", {}), (5, "e", {"level": "a", "severity": "b"})]),
        ),
        message(({"job": "j"}, [(6, "f", [("level", "x"), ("z", ""), ("level", "debug")])])),
    )
    assert rows.batch["severity_text"].to_pylist() == ["warn", "warn", "error", "", "a", "debug"]
    assert rows.batch["severity_number"].to_pylist() == [13, 13, 17, 0, 0, 5]
    assert rows.batch["service_name"].to_pylist() == [None, None, None, None, None, "j"]


def test_ids() -> None:
    trace, span = "5B8EFFF798038103d269b633813fc60c", "eee19b7ec3c1b174"
    given = [
        {"trace_id": trace, "span_id": span},
        {"trace_id": span, "span_id": trace},
        {"trace_id": "no hexadecimal at all, but so long"[:32], "span_id": "0" * 16},
        {"trace_id": "", "span_id": span},
        {},
    ]
    rows = rows_of(message(({}, [(1, "a", pairs) for pairs in given])))
    found = plain(rows)
    assert [row["trace_id"] for row in found] == [bytes.fromhex(trace), None, None, None, None]
    assert [row["span_id"] for row in found] == [bytes.fromhex(span), None, None, bytes.fromhex(span), None]
    assert rows.invalid_ids == 4
    assert [dict(row["attributes"]) for row in found] == given


def test_the_last_of_several_values_of_one_name_counts() -> None:
    row = one({}, [("a", "1"), ("trace_id", "ab" * 16), ("a", "2"), ("trace_id", "cd" * 16)])
    assert row["attributes"] == [("a", "2"), ("trace_id", "cd" * 16)]
    assert row["trace_id"] == b"\xcd" * 16


def test_streams_with_wrong_labels_are_rejected_and_the_others_are_not() -> None:
    good: tuple[Any, list[Any]] = ({"app": "shop"}, [(1, "good", {})])
    rows = rows_of(
        message(good),
        message(good, ("{a=}", [(1, "bad", {}), (2, "bad", {})]), good, ("nothing", [(3, "bad", {})])),
        message(("{", [])),
        message(("{b", [(4, "bad", {})])),
        message(good, good),
    )
    assert rows.batch["body"].to_pylist() == ["good"] * 5
    assert rows.requests.tolist() == [0, 1, 1, 4, 4]
    assert rows.rejected == {
        1: Rejected(3, "streams[1]: a value in quotes is expected, not '}', at character 4 of the labels"),
        2: Rejected(0, "streams[0]: the name of a label is expected, not the end, at character 2 of the labels"),
        3: Rejected(1, "streams[0]: '=' is expected, not the end, at character 3 of the labels"),
    }


def test_nothing() -> None:
    assert len(rows_of(b"").batch) == 0
    assert len(rows_of(message(), message(({"a": "b"}, []))).batch) == 0


@pytest.mark.parametrize(("labels", "entries"), [({"a": "x" * 1_000_000}, 2000), ({}, 6_000_000)])
def test_a_small_request_that_would_be_a_large_table(labels: dict[str, str], entries: int) -> None:
    stream = message((labels, [(0, "", {})]))
    made = PushRequest.FromString(stream).streams[0].SerializeToString() + b"\x12\x00" * entries
    size = bytes([len(made) >> shift & 0x7F | (0x80 if shift < 21 else 0) for shift in (0, 7, 14, 21)])
    with pytest.raises(RequestError, match="The records would be"):
        rows_of(b"\x0a" + size + made)
