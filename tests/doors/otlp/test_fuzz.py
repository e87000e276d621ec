"""Any bytes are answered with a 4xx and a reason, or become rows, and no other request is affected."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import grpc
import httpx
import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToJson, Parse
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.sections.telemetry import TelemetryConfig
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, SPANS, Signal
from frazil.doors.telemetry.conversion import RequestConverter, TelemetryRequest
from frazil.doors.telemetry.decompression import decompress
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.errors import RequestError
from frazil.ops.metrics import create_registry
from tests.doors.otlp.json_requests import REQUESTS
from tests.doors.telemetry.support import JSON, PROTOBUF, Served, rows, run, settings
from tests.faults.telemetry_clients import COLUMNS, logs_of, points_of, spans_of
from tests.log.support import ManualClock

MAKE = {LOGS: logs_of, SPANS: spans_of, METRICS: points_of}
each_signal = pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.requests.topic)


def accepted(signal: Signal, body: bytes, *, as_json: bool = False) -> int | None:
    """Returns the number of rows; None if the request is refused with a reason."""
    config, clock = TelemetryConfig(), ManualClock()
    limits, metrics = TenantLimits(config, clock.monotonic), TelemetryMetrics(create_registry())
    converter = RequestConverter(signal.requests, config, limits, metrics, clock, 64 << 20)
    done = converter.convert([TelemetryRequest("default", body, json=as_json)])
    if problem := done.problems.get(0):
        assert isinstance(problem, RequestError)
        name, form = signal.requests.message.DESCRIPTOR.name, " in JSON" if as_json else ""
        assert re.fullmatch(rf"The body is no {name}{form}: .*\w.*\.", str(problem), re.S)
        assert not done.appends
        return None
    for found in done.appends:
        assert isinstance(found.content, pa.RecordBatch)
        found.content.validate(full=True)
    return sum(request.rows for found in done.appends for request in found.requests)


def flipped(body: bytes, places: Sequence[int]) -> bytes:
    """Returns the bytes with these bits flipped."""
    damaged = bytearray(body)
    for place in places:
        damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged)


@each_signal
@given(body=st.binary(max_size=200))
def test_any_bytes(signal: Signal, body: bytes) -> None:
    accepted(signal, body)


@each_signal
@given(data=st.data())
def test_damaged_messages(signal: Signal, data: st.DataObject) -> None:
    body: bytes = data.draw(REQUESTS[signal]).SerializeToString()
    if body:
        body = flipped(body, data.draw(st.lists(st.integers(0, len(body) * 8 - 1), min_size=1, max_size=3)))
    accepted(signal, body[: data.draw(st.integers(0, len(body)))])


@given(body=st.binary(max_size=100), encoding=st.sampled_from(["gzip", "deflate", "zstd", "snappy"]))
def test_any_compressed_bytes(body: bytes, encoding: str) -> None:
    with suppress(RequestError):
        assert len(decompress(body, encoding, 1000)) <= 1000


WAYS = {
    LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
    SPANS: ("resourceSpans", "scopeSpans", "spans"),
    METRICS: ("resourceMetrics", "scopeMetrics", "metrics"),
}
NAMES = {
    LOGS: ("body", "severityNumber", "timeUnixNano"),
    SPANS: ("links", "events", "parentSpanId", "status", "startTimeUnixNano"),
    METRICS: ("gauge", "histogram", "summary", "dataPoints", "exemplars", "bucketCounts", "asInt"),
}
ANYWHERE = ("attributes", "key", "value", "traceId", "kvlistValue")


def json_values(signal: Signal) -> st.SearchStrategy[object]:
    # JSON may contain halves of surrogate pairs.
    texts = st.text(st.characters(), max_size=5)
    known = st.sampled_from([*WAYS[signal], *NAMES[signal], *ANYWHERE])
    names = st.one_of(known, known, known, texts)
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=20,
    )


@each_signal
@given(data=st.data())
def test_any_json(signal: Signal, data: st.DataObject) -> None:
    """The random JSON stands at any level of a request."""
    value = data.draw(json_values(signal))
    for name in reversed(WAYS[signal][: data.draw(st.integers(0, 3))]):
        value = {name: [value]}
    accepted(signal, json.dumps(value).encode(), as_json=True)


@pytest.mark.parametrize("depth", [10, 40, 200, 100_000])
def test_values_within_values_within_values(depth: int) -> None:
    """Values are read as deep as the Protobuf runtime reads them."""
    value = b""
    for _ in range(min(depth, 5000)):
        value = b"\x2a" + _sized(b"\x0a" + _sized(value))
    if depth > 5000:
        # Groups, which nobody uses any more, need one byte a level.
        value = b"\x0b" * depth
    body = b"\x0a" + _sized(b"\x12" + _sized(b"\x12" + _sized(b"\x2a" + _sized(value))))
    assert accepted(LOGS, body) == (1 if depth < 50 else None)


def _sized(data: bytes) -> bytes:
    size, length = b"", len(data)
    while length >= 0x80:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return size + bytes([length]) + data


class Sent(NamedTuple):
    signal: Signal
    body: bytes
    headers: Mapping[str, str]


def in_some_form(chance: random.Random, signal: Signal, texts: list[str], number: int) -> Sent:
    """Returns a request with these records: as it is, compressed, or in JSON."""
    body = MAKE[signal](texts, number)
    match chance.randrange(3):
        case 0:
            return Sent(signal, body, {})
        case 1:
            return Sent(signal, gzip.compress(body), {"content-encoding": "gzip"})
    return Sent(signal, MessageToJson(signal.requests.message.FromString(body)).encode(), JSON)


def damaged(chance: random.Random, signal: Signal) -> Sent:
    number = chance.randrange(1 << 32)
    sent = in_some_form(chance, signal, [f"bad {number}"], number)
    body = sent.body
    match chance.randrange(3):
        case 0:
            body = chance.randbytes(chance.randrange(1, 100))
        case 1:
            body = body[: chance.randrange(len(body))] + b"\xff"
        case _:
            body = flipped(body, chance.choices(range(len(body) * 8), k=3))
    return sent._replace(body=body)


async def answers_to(requests: Sequence[Sent], url: str) -> list[tuple[int, bytes]]:
    """Returns the status and the content of each answer. All clients connect before the first one sends."""
    together = asyncio.Barrier(len(requests))

    async def send(sent: Sent) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        named = {**PROTOBUF, **sent.headers, "content-length": len(sent.body), "host": "x", "connection": "close"}
        lines = [f"POST {sent.signal.path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""]
        await together.wait()
        writer.write("\r\n".join(lines).encode() + sent.body)
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), content

    return await asyncio.gather(*map(send, requests))


def reason(sent: Sent, content: bytes) -> str:
    """Returns the reason in an answer, which has the format of the request."""
    status = Parse(content, Status()) if sent.headers is JSON else Status.FromString(content)
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    message: str = status.message
    return message


def test_the_good_ones_are_stored_among_bad_ones(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = settings(tmp_path)
    good: dict[Signal, list[str]] = {signal: [] for signal in SIGNALS}
    refused: Counter[Signal] = Counter()

    def good_one(number: int) -> Sent:
        signal = chance.choice(SIGNALS)
        texts = [f"good {number} {each}" for each in range(2)]
        good[signal] += texts
        return in_some_form(chance, signal, texts, number)

    def check_bad(sent: Sent, status: int, content: bytes) -> None:
        """Checks the answer to a damaged request. Some can still be read."""
        if status != 200:
            assert status == 400
            assert reason(sent, content)
            refused[sent.signal] += 1

    async def scenario(served: Served) -> None:
        for start in range(0, 300, 50):
            goods = [good_one(number) for number in range(start, start + 25)]
            bads = [damaged(chance, chance.choice(SIGNALS)) for _ in range(25)]
            mixed = chance.sample(goods + bads, k=50)
            for sent, (status, content) in zip(mixed, await answers_to(mixed, served.url("otlp")), strict=True):
                if sent in bads:
                    check_bad(sent, status, content)
                else:
                    # Not even a part of it was rejected.
                    assert (status, content.strip(b"{}")) == (200, b"")
        for signal in SIGNALS:
            table = await asyncio.to_thread(rows, config, signal.requests.topic)
            found = [text for text in table[COLUMNS[signal]].to_pylist() if text and text.startswith("good ")]
            assert sorted(found) == sorted(good[signal])
            assert refused[signal] > 0
        # Many requests were stored together.
        commits = sum(writer.stats.commits for writer in served.log.writers)
        assert commits < 150

    run(config, scenario)
