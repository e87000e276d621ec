"""Bodies with far more messages than records need are refused before they are decoded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from google.protobuf.message import DecodeError, Message
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from frazil.doors.telemetry import amplification
from frazil.doors.telemetry.amplification import (
    UNCHECKED_BYTES,
    MessageCounts,
    check_json,
    check_messages,
    count_messages,
)
from frazil.errors import RequestError
from frazil.formats.loki.messages import PushRequest
from frazil.formats.otlp import logs, metrics, spans
from frazil.formats.remote_write.messages import WriteRequest
from tests.doors.telemetry.support import JSON, Served, logs_request, run, settings
from tests.formats.loki.support import message as push_message
from tests.formats.remote_write import support as remote_write_support
from tests.formats.telemetry import metric_strategies, strategies

MIB = 1 << 20


def varint(number: int) -> bytes:
    low = number & 0x7F
    return bytes([low]) if number < 0x80 else bytes([low | 0x80]) + varint(number >> 7)


def within(content: bytes, *fields: int) -> bytes:
    """Returns a message's content in the first of these fields, which is in the second, and so on."""
    for field in fields:
        content = varint(field << 3 | 2) + varint(len(content)) + content
    return content


def counted(message: Message) -> int:
    """Counts the nested messages of a decoded message."""
    total = 0
    for field, value in message.ListFields():
        if field.message_type is not None:
            inner = list(value) if field.label == field.LABEL_REPEATED else [value]
            total += len(inner) + sum(map(counted, inner))
    return total


# --- counting --------------------------------------------------------------------------------------------------


def _nested(kind: type[Message], resources: str, scopes: str, records: str, drawn: Any) -> st.SearchStrategy[Message]:
    """Generates requests of such records."""

    def build(resource: Any, scope: Any, found: list[Any]) -> Message:
        request = kind()
        level = getattr(request, resources).add(resource=resource)
        getattr(level, scopes).add(scope=scope, **{records: found})
        return request

    return st.builds(build, strategies.resources, strategies.scopes, st.lists(drawn, max_size=3))


_pairs = st.dictionaries(strategies.texts, strategies.texts, max_size=3)
_entries = st.lists(st.tuples(strategies.some_times, strategies.texts, _pairs), max_size=3)
_pushes = st.lists(st.tuples(_pairs, _entries), max_size=3).map(
    lambda streams: PushRequest.FromString(push_message(*streams))
)
requests: st.SearchStrategy[Message] = st.one_of(
    _nested(logs.REQUEST, "resource_logs", "scope_logs", "log_records", strategies.log_records),
    _nested(spans.REQUEST, "resource_spans", "scope_spans", "spans", strategies.spans),
    metric_strategies.requests,
    _pushes,
    remote_write_support.requests(exemplars=True, histograms=True),
)


@given(requests, st.sampled_from([1, 5, 100]), st.sampled_from([1, 50]), st.sampled_from([3, 100, 1 << 14]))
def test_as_many_as_are_decoded(request: Message, times: int, few: int, room: int) -> None:
    """The count is the same whether messages are walked side by side or one by one, and however many at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amplification, "_FEW", few)
        patch.setattr(amplification, "_ROOM", room)
        patch.setattr(amplification, "_CHUNK", room)
        body = request.SerializeToString() * times
        assert count_messages(type(request), body).messages == counted(request) * times


_groups = st.recursive(
    st.binary(max_size=5).map(lambda content: within(content, 1)),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: b"\xa3\x06" + b"".join(parts) + b"\xa4\x06"),
    max_leaves=5,
).filter(lambda group: group.startswith(b"\xa3"))
"""Groups with the number of a field that no message has: their content does not count."""
odd_fields = st.one_of(
    _groups,
    st.sampled_from([b"\x08\x01", b"\x09" + bytes(8), b"\x0d" + bytes(4), b"\x10\xff\x01", b"\xfa\x7f\x02ab"]),
)


@given(requests, st.lists(odd_fields, max_size=3), st.sampled_from([1, 100]), st.sampled_from([1, 50]))
def test_fields_that_nobody_knows(request: Message, odd: list[bytes], times: int, few: int) -> None:
    body = (b"".join(odd) + request.SerializeToString()) * times
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amplification, "_FEW", few)
        assert count_messages(type(request), body).messages == counted(request) * times


@given(requests, st.data(), st.sampled_from([1, 50]))
def test_nothing_can_be_hidden(request: Message, data: st.DataObject, few: int) -> None:
    """A message that the runtime accepts never contains more messages than were counted."""
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(body)))
        body[at : data.draw(st.integers(at, min(at + 3, len(body))))] = data.draw(st.binary(max_size=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amplification, "_FEW", few)
        found = count_messages(type(request), bytes(body)).messages
    try:
        decoded = type(request).FromString(bytes(body))
    except DecodeError:
        return
    assert found >= counted(decoded)


@pytest.mark.parametrize("few", [1, 50])
@pytest.mark.parametrize("size", [b"\x80" * 4 + b"\x00", b"\x00"])
@pytest.mark.parametrize("tag", [b"\x8a" + b"\x80" * 3 + b"\x00", b"\x8a\x00", b"\x0a"])
def test_numbers_that_are_longer_than_they_need_be(
    tag: bytes, size: bytes, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amplification, "_FEW", few)
    body = (tag + size) * 100
    assert count_messages(logs.REQUEST, body).messages == counted(logs.REQUEST.FromString(body)) == 100


def test_no_further_than_needed() -> None:
    body = within(b"\x12\x00" * 10**6, 2, 1)
    assert 1000 < count_messages(logs.REQUEST, body, MessageCounts(1000, 10**9)).messages < 100_000
    assert 1000 < count_messages(logs.REQUEST, body, MessageCounts(10**9, 1000)).fields < 100_000


# --- large bodies ----------------------------------------------------------------------------------------------


def _repeated(kind: type[Message], content: bytes, *fields: int) -> tuple[type[Message], Callable[[int], bytes]]:
    return kind, lambda size: within(content * (size // len(content)), *fields)


DENSE = {
    "log records": _repeated(logs.REQUEST, b"\x12\x00", 2, 1),
    "resources": _repeated(logs.REQUEST, b"\x0a\x00"),
    "attributes of a record": _repeated(logs.REQUEST, b"\x32\x00", 2, 2, 1),
    "attributes of many records": _repeated(logs.REQUEST, within(b"\x32\x00" * 100, 2), 2, 1),
    "attributes after a group": _repeated(logs.REQUEST, within(b"\xa3\x06\xa4\x06" + b"\x32\x00" * 100, 2), 2, 1),
    "attributes with long tags": _repeated(logs.REQUEST, b"\xb2\x00\x00", 2, 2, 1),
    "a list in a body": _repeated(logs.REQUEST, b"\x0a\x00", 5, 5, 2, 2, 1),
    "lists in lists": _repeated(logs.REQUEST, within(b"", *[5, 1] * 40), 5, 5, 2, 2, 1),
    "a map in a body": _repeated(logs.REQUEST, b"\x0a\x00", 6, 5, 2, 2, 1),
    "fields of a record": _repeated(logs.REQUEST, b"\x40\x32", 2, 2, 1),
    "data points": _repeated(metrics.REQUEST, b"\x0a\x00", 5, 2, 2, 1),
    "exemplars": _repeated(metrics.REQUEST, b"\x2a\x00", 1, 5, 2, 2, 1),
    "quantiles": _repeated(metrics.REQUEST, b"\x32\x00", 1, 11, 2, 2, 1),
    "spans": _repeated(spans.REQUEST, b"\x12\x00", 2, 1),
    "events": _repeated(spans.REQUEST, b"\x5a\x00", 2, 2, 1),
    "links": _repeated(spans.REQUEST, b"\x6a\x00", 2, 2, 1),
    "entries": _repeated(PushRequest, b"\x12\x00", 1),
    "metadata": _repeated(PushRequest, b"\x1a\x00", 2, 1),
    "series": _repeated(WriteRequest, b"\x0a\x00"),
    "samples": _repeated(WriteRequest, b"\x12\x00", 1),
    "labels": _repeated(WriteRequest, b"\x0a\x00", 1),
    "spans of a histogram": _repeated(WriteRequest, b"\x5a\x00", 4, 1),
}


@pytest.mark.parametrize("name", DENSE)
def test_dense_bodies_are_refused(name: str) -> None:
    kind, make = DENSE[name]
    body = make(UNCHECKED_BYTES + MIB)
    with pytest.raises(RequestError) as caught:
        check_messages(kind, body)
    what, limit = ("fields", len(body) // 4) if name == "fields of a record" else ("messages", len(body) // 8)
    assert str(caught.value) == (
        f"The body of {len(body):,} bytes has more than {limit:,} {what} in its {kind.DESCRIPTOR.name}, and would "
        f"need far more memory than its size. Send smaller batches, of up to 4,194,304 bytes."
    )


@pytest.mark.parametrize("end", [b"", b"\xff", b"\x07", b"\x12\xff\x01"])
def test_what_is_malformed_at_its_end_is_dense_all_the_same(end: bytes) -> None:
    body = within(b"\x12\x00" * (UNCHECKED_BYTES // 2) + end, 2, 1)
    with pytest.raises(RequestError, match="Send smaller batches"):
        check_messages(logs.REQUEST, body)


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a" * (UNCHECKED_BYTES + 1),
        within(b"\x0a\x07" * UNCHECKED_BYTES, 1)[: UNCHECKED_BYTES + 9],
        b"\x0c" * (UNCHECKED_BYTES + 1),
    ],
)
def test_what_is_malformed_from_the_start_is_for_others_to_refuse(body: bytes) -> None:
    check_messages(logs.REQUEST, body)


def test_bodies_that_are_not_large_may_be_dense() -> None:
    body = b"\x0a\x00" * (UNCHECKED_BYTES // 2)
    check_messages(logs.REQUEST, body)
    with pytest.raises(RequestError):
        check_messages(logs.REQUEST, body + b"\x0a\x00")


def _log_record() -> bytes:
    record = logs_request("GET /api/v1/orders took 5 ms").resource_logs[0].scope_logs[0].log_records[0]
    for name in ("http.method", "http.route", "user.id"):
        record.attributes.add(key=name).value.string_value = "GET /api"
    record.attributes.add(key="http.status_code").value.int_value = 200
    return within(record.SerializeToString(), 2)


def _span() -> bytes:
    scope = spans.REQUEST().resource_spans.add().scope_spans.add()
    span = scope.spans.add(trace_id=bytes(range(16)), span_id=bytes(range(8)), name="GET /api", kind=2)
    span.start_time_unix_nano = span.end_time_unix_nano = 1_700_000_000_000_000_000
    span.attributes.add(key="http.status_code").value.int_value = 200
    span.attributes.add(key="user.id").value.string_value = "user-17"
    return bytes(scope.SerializeToString())


def _metric() -> bytes:
    scope = metrics.REQUEST().resource_metrics.add().scope_metrics.add()
    metric = scope.metrics.add(name="http.server.duration", unit="s")
    for number in range(100):
        point = metric.gauge.data_points.add(time_unix_nano=1_700_000_000_000_000_000, as_double=number / 3)
        for key, value in (("host", f"host-{number}"), ("route", "cart")):
            point.attributes.add(key=key).value.string_value = value
    return bytes(scope.SerializeToString())


def _series() -> bytes:
    request = WriteRequest()
    series = request.timeseries.add()
    for name, value in (("__name__", "up"), ("job", "a"), ("instance", "b:9")):
        series.labels.add(name=name, value=value)
    series.samples.add(value=1.5, timestamp=1_700_000_000_000)
    return bytes(request.SerializeToString())


def _stream() -> bytes:
    return within(
        PushRequest.FromString(push_message(({}, [(10**18 + 1, "GET", {"user": "17"})])))
        .streams[0]
        .entries[0]
        .SerializeToString(),
        2,
    )


USUAL = {
    "logs": _repeated(logs.REQUEST, _log_record(), 2, 1),
    "spans": _repeated(spans.REQUEST, _span(), 2, 1),
    "metrics": _repeated(metrics.REQUEST, _metric(), 2, 1),
    "remote write": _repeated(WriteRequest, _series()),
    "loki": _repeated(PushRequest, _stream(), 1),
}


@pytest.mark.parametrize("name", USUAL)
def test_usual_bodies_pass(name: str) -> None:
    kind, make = USUAL[name]
    body = make(UNCHECKED_BYTES + MIB)
    check_messages(kind, body)
    found = count_messages(kind, body)
    assert found.messages < len(body) / 8
    assert found.fields < len(body) / 4


# --- requests --------------------------------------------------------------------------------------------------

CONVERT = """
import sys
from pathlib import Path
from frazil.config.sections.telemetry import TelemetryConfig
from frazil.doors.otlp.signals import LOGS
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.conversion import RequestConverter, TelemetryRequest
from frazil.clock import SystemClock
from frazil.ops.metrics import create_registry

def most_memory():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10

config = TelemetryConfig()
clock = SystemClock()
limits, metrics = TenantLimits(config, clock.monotonic), TelemetryMetrics(create_registry())
converter = RequestConverter(LOGS.requests, config, limits, metrics, clock, 64 << 20)
converter.convert([TelemetryRequest("a", b"", "")])
before = most_memory()
for name in sys.argv[1:]:
    done = converter.convert([TelemetryRequest("a", Path(name).read_bytes(), "zstd")])
    print(done.problems.get(0))
print(most_memory() - before)
"""


def test_the_memory_of_a_process_stays_small(tmp_path: Path) -> None:
    """Decoded, each body would take 2 GB and more."""
    reasons = []
    for name in ("log records", "attributes of many records", "lists in lists"):
        body = DENSE[name][1](16 * MIB)
        reasons.append(f"The body of {len(body):,} bytes has more than {len(body) // 8:,} messages")
        (tmp_path / name).write_bytes(zstandard.compress(body))
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, *tmp_path.iterdir()], capture_output=True, text=True, timeout=120, check=True
    )
    *told, grown = done.stdout.splitlines()
    assert sorted(each[: each.index(" in its")] for each in told) == sorted(reasons)
    assert int(grown) < 150 * MIB


@pytest.mark.parametrize("content", [b"{},", b"[],", b'{"attributes":[{},{},{},{},{},{},{},{},{},{}]},'])
def test_dense_json(content: bytes) -> None:
    body = b'{"resourceLogs": [' + content * (UNCHECKED_BYTES // len(content) + 1) + b"{}]}"
    with pytest.raises(RequestError, match=r"more than 524,\d\d\d objects and lists, .* Send smaller batches"):
        check_json(body)
    check_json(body[:UNCHECKED_BYTES])


@pytest.mark.parametrize("content", [b"1,", b'"",', b'"\\\\",1,1,1,', b'"\\"",1,1,1,', b'"{[,",1,1,1,1,1,'])
def test_json_of_many_values(content: bytes) -> None:
    body = b'{"resourceLogs": [' + content * (UNCHECKED_BYTES // len(content) + 1) + b"1]}"
    with pytest.raises(RequestError, match=r"more than 1,048,\d\d\d values, .* Send smaller batches"):
        check_json(body)
    check_json(body[:UNCHECKED_BYTES])


def test_json_of_many_values_in_another_encoding() -> None:
    """Half of the character is a quote in UTF-8."""
    body = ('["\u2200",' + "[]," * UNCHECKED_BYTES + "1]").encode("utf-16")
    with pytest.raises(RequestError, match="objects and lists"):
        check_json(body)


USUAL_JSON = {
    "attributes": {"key": "a", "value": {"intValue": 1}},
    "histograms": {"bucketCounts": ["0"] * 160},
    "loki": ["1700000000000000000", "a", {"user": "17"}],
    "texts of commas": ["1700000000000000000", "1,2,3,4,5,6,7,8,9," * 40],
    "texts of JSON": ["1700000000000000000", '[[{"\\":"\\"}],[]]' * 40],
}


@pytest.mark.parametrize("name", USUAL_JSON)
def test_usual_json_passes(name: str) -> None:
    value = json.dumps(USUAL_JSON[name], separators=(",", ":"))
    body = f"[{','.join([value] * ((UNCHECKED_BYTES + MIB) // len(value)))}]".encode()
    assert len(body) > UNCHECKED_BYTES
    check_json(body)


def test_answers(tmp_path: Path) -> None:
    dense = within(b"\x12\x00" * UNCHECKED_BYTES, 2, 1)
    dense_json = b'{"resourceLogs": [' + b"{}," * UNCHECKED_BYTES + b"{}]}"

    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/logs", zstandard.compress(dense), content_encoding="zstd")
        assert answer.status_code == 400
        assert "Send smaller batches" in Status.FromString(answer.content).message
        answer = await served.post("/v1/logs", zstandard.compress(dense_json), content_encoding="zstd", **JSON)
        assert answer.status_code == 400
        assert "Send smaller batches" in answer.json()["message"]
        assert (await served.post("/v1/logs", logs_request("a").SerializeToString())).status_code == 200
        assert served.stored() == 1

    run(settings(tmp_path), scenario)
