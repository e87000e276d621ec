"""Whatever bytes come: a 4xx with a reason or rows, and nobody else is affected."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from frazil.doors.otlp.jsonbody import to_protobuf
from frazil.doors.otlp.signals import LOGS, SIGNALS, Signal
from frazil.doors.telemetry.bodies import expand
from frazil.errors import RequestError
from frazil.telemetry.messages import decode
from frazil.telemetry.rows import Arrival
from tests.doors.telemetry.support import Served, among_bad_ones, logs_request, rows, run, settings
from tests.telemetry.test_logs import requests as logs_requests

NOW = Arrival(["default"], 1)


def accepted(signal: Signal, body: bytes) -> int | None:
    """How many rows it becomes; None if it is refused."""
    try:
        found = signal.requests.to_rows(decode(signal.requests.message, [body]), NOW)
    except (RequestError, DecodeError, ValueError):
        return None
    found.batch.validate(full=True)
    return len(found.requests)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.requests.topic)
@given(body=st.binary(max_size=200))
def test_any_bytes(signal: Signal, body: bytes) -> None:
    accepted(signal, body)


@given(request=logs_requests, data=st.data())
def test_damaged_messages(request: LOGS.requests.message, data: st.DataObject) -> None:  # type: ignore[name-defined]
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] ^= 1 << data.draw(st.integers(0, 7))
    accepted(LOGS, bytes(body[: data.draw(st.integers(0, len(body)))]))


@given(body=st.binary(max_size=100), encoding=st.sampled_from(["gzip", "deflate", "zstd", "snappy"]))
def test_any_compressed_bytes(body: bytes, encoding: str) -> None:
    with suppress(RequestError):
        assert len(expand(body, encoding, 1000)) <= 1000


NAMES = ["resourceLogs", "scopeLogs", "logRecords", "body", "attributes", "key", "value", "traceId", "kvlistValue"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resourceLogs",
                    "scopeLogs",
                    "logRecords",
                    "body",
                    "attributes",
                    "key",
                    "value",
                    "traceId",
                    "kvlistValue",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(value=json_values)
def test_any_json(value: object) -> None:
    with suppress(RequestError):
        accepted(LOGS, to_protobuf(LOGS.requests.message, json.dumps(value).encode()))


@pytest.mark.parametrize("depth", [10, 40, 200, 100_000])
def test_values_within_values_within_values(depth: int) -> None:
    """As deep as the runtime of Protobuf reads them."""
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


def test_the_good_ones_are_stored_among_bad_ones(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = settings(tmp_path)

    def bad() -> tuple[bytes, str]:
        body = bytearray(logs_request("x" * chance.randrange(50), time=chance.randrange(1 << 60)).SerializeToString())
        kind = chance.randrange(3)
        if kind == 0:
            return chance.randbytes(chance.randrange(1, 100)), ""
        if kind == 1:
            packed = bytearray(gzip.compress(bytes(body)))
            packed[chance.randrange(len(packed))] ^= 0xFF
            return bytes(packed), "gzip"
        return bytes(body[: chance.randrange(len(body))]) + b"\xff", ""

    async def scenario(served: Served) -> None:
        async def send_bad() -> None:
            body, encoding = bad()
            assert (await served.post("/v1/logs", body, content_encoding=encoding)).status_code in (200, 400)

        async def send_good(number: int) -> int:
            return (await served.post("/v1/logs", logs_request(f"good {number}").SerializeToString())).status_code

        sent = await among_bad_ones(chance, send_good, send_bad)
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(int(body.split()[1]) for body in found if body.startswith("good ")) == sent

    run(config, scenario)
