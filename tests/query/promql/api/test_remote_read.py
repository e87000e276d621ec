"""Tests remote read: samples, and chunks that are read bit by bit as Prometheus does."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.interface import QueryRequest, Reply
from frazil.formats.otlp.metrics import TOPIC
from frazil.formats.remote_write.messages import WriteRequest
from frazil.query.promql.api.checksums import crc32c
from frazil.query.promql.api.read_messages import (
    SAMPLES,
    STREAMED_XOR_CHUNKS,
    ChunkedReadResponse,
    ReadRequest,
    ReadResponse,
)
from frazil.query.promql.api.remote_read import read
from frazil.query.promql.api.xor_chunks import xor_chunk
from frazil.scan.scanner import TopicScanner
from tests.formats.remote_write.support import add, rows_of
from tests.query.promql.plain_context import PlainContext
from tests.query.support import World

BEGIN = 1_700_000_000_000
TENANT = "team-a"


class Bits:
    """Reads a chunk."""

    def __init__(self, data: bytes) -> None:
        self._bits = "".join(f"{byte:08b}" for byte in data)
        self._at = 0

    def take(self, count: int) -> int:
        self._at += count
        return int(self._bits[self._at - count : self._at] or "0", 2)

    def unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(8)
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def signed(self) -> int:
        found = self.unsigned()
        return found >> 1 if found % 2 == 0 else -(found >> 1) - 1

    def change(self) -> int:
        """Returns by how much the distance of two times changed."""
        ones = 0
        while ones < 4 and self.take(1):
            ones += 1
        width = (0, 14, 17, 20, 64)[ones]
        found = self.take(width) if width else 0
        return found - (1 << width) if width and found > 1 << (width - 1) else found

    def value(self, before: int) -> int:
        if self.take(1) == 0:
            return before
        assert self.take(1) == 1, "the chunks refer to no windows of earlier values"
        leading = self.take(5)
        width = self.take(6) or 64
        return before ^ self.take(width) << (64 - leading - width)


def decoded(chunk: bytes) -> list[tuple[int, int]]:
    """Returns times, and the bits of values."""
    bits = Bits(chunk)
    count = bits.take(16)
    time, value, distance = bits.signed(), bits.take(64), 0
    found = [(time, value)]
    for number in range(1, count):
        distance = bits.unsigned() if number == 1 else distance + bits.change()
        time, value = time + distance, bits.value(value)
        found.append((time, value))
    return found


distances = st.integers(1, 3) | st.integers(1, 100_000) | st.integers(1, 2**40)
values = st.floats() | st.sampled_from([0.0, 1.0, -0.0, 0.1])


@given(st.integers(-(2**50), 2**50), st.lists(st.tuples(distances, values), min_size=1, max_size=20))
def test_chunks_are_read_back(begin: int, samples: list[tuple[int, float]]) -> None:
    times = begin + np.cumsum([distance for distance, _ in samples])
    numbers = np.array([value for _, value in samples])
    found = decoded(xor_chunk(times, numbers))
    assert found == list(zip(times.tolist(), numbers.view(np.uint64).tolist(), strict=True))


@pytest.mark.parametrize("length", [0, 1, 9, 1023, 1024, 5000])
def test_checksums_are_those_of_the_plain_way(length: int) -> None:
    data = random.Random(length).randbytes(length)
    plain = 0xFFFFFFFF
    for byte in data:
        plain ^= byte
        for _ in range(8):
            plain = plain >> 1 ^ (0x82F63B78 if plain & 1 else 0)
    assert crc32c(data) == plain ^ 0xFFFFFFFF
    assert crc32c(b"123456789") == 0xE3069283


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainContext]:
    with World(Path(tmp_path_factory.mktemp("world"))) as world:
        request = WriteRequest()
        for code in ("200", "500"):
            add(request, *((at / 3, BEGIN + at * 1000) for at in range(2500)), name="hits", code=code)
        series = add(request, name="sizes")
        histogram = series.histograms.add(timestamp=BEGIN, count_int=3, sum=4.5, schema=2)
        histogram.positive_spans.add(offset=1, length=2)
        histogram.positive_deltas.extend([1, 1])
        world.append(TOPIC, rows_of(request, tenants=[TENANT]).batch)
        yield PlainContext(world.config, TopicScanner(world.config))


def ask(context: PlainContext, *accepted: int, **labels: str) -> Reply:
    request: Any = ReadRequest(accepted_response_types=accepted)
    query = request.queries.add(start_timestamp_ms=BEGIN + 1000, end_timestamp_ms=BEGIN + 2_000_000)
    for name, value in labels.items():
        query.matchers.add(type=0, name=name, value=value)
    return sent(context, request)


def sent(context: PlainContext, request: Any) -> Reply:
    body = pa.compress(request.SerializeToString(), "snappy", asbytes=True)
    return read(QueryRequest("POST", "/api/v1/read", {}, "", {}, body, (TENANT,), "prometheus"), context)


def frames(reply: Reply) -> Iterator[Any]:
    data = b"".join(reply.body)
    while data:
        size = Bits(data[:10]).unsigned()
        used = max(1, -(-size.bit_length() // 7))
        payload = data[used + 4 : used + 4 + size]
        assert int.from_bytes(data[used : used + 4], "big") == crc32c(payload)
        yield ChunkedReadResponse.FromString(payload)
        data = data[used + 4 + size :]


def test_samples(context: PlainContext) -> None:
    reply = ask(context, __name__="hits", code="500")
    body = b"".join(reply.body)
    size = Bits(body).unsigned()
    found: Any = ReadResponse.FromString(pa.decompress(body, size, "snappy", asbytes=True))
    (series,) = found.results[0].timeseries
    assert [(label.name, label.value) for label in series.labels] == [("__name__", "hits"), ("code", "500")]
    assert (series.samples[0].timestamp, series.samples[0].value) == (BEGIN + 1000, 1 / 3)
    assert len(series.samples) == 2000


def test_streamed_chunks(context: PlainContext) -> None:
    reply = ask(context, STREAMED_XOR_CHUNKS, SAMPLES, __name__="hits")
    assert reply.headers["content-type"].startswith("application/x-streamed-protobuf")
    found = list(frames(reply))
    codes = [frame.chunked_series[0].labels[1].value for frame in found]
    assert codes == ["200", "500"]
    samples = [sample for chunk in found[0].chunked_series[0].chunks for sample in decoded(chunk.data)]
    assert samples[:2] == [(BEGIN + at * 1000, struct.unpack(">Q", struct.pack(">d", at / 3))[0]) for at in (1, 2)]
    assert len(samples) == 2000


def test_native_histograms_come_as_samples(context: PlainContext) -> None:
    request: Any = ReadRequest(accepted_response_types=[STREAMED_XOR_CHUNKS, SAMPLES])
    query = request.queries.add(start_timestamp_ms=BEGIN, end_timestamp_ms=BEGIN)
    query.matchers.add(type=2, name="__name__", value="si.+")
    reply = sent(context, request)
    body = b"".join(reply.body)
    found: Any = ReadResponse.FromString(pa.decompress(body, Bits(body).unsigned(), "snappy", asbytes=True))
    (histogram,) = found.results[0].timeseries[0].histograms
    assert (histogram.count_float, histogram.sum, histogram.schema) == (3, 4.5, 2)
    assert [(span.offset, span.length) for span in histogram.positive_spans] == [(1, 2)]
    assert list(histogram.positive_counts) == [1, 2]
    del request.accepted_response_types[1:]
    assert sent(context, request).status == 400


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pa.compress(b"\x10\x07", "snappy", asbytes=True), "response types: [7]; supported: map["),
        (b"no snappy", "snappy: corrupt input"),
        (b"", "snappy: corrupt input"),
        (pa.compress(b"\x0a\xff", "snappy", asbytes=True), "proto: "),
    ],
)
def test_what_cannot_be_answered_is_said(context: PlainContext, body: bytes, reason: str) -> None:
    reply = read(QueryRequest("POST", "/api/v1/read", {}, "", {}, body, (TENANT,), "prometheus"), context)
    assert reply.status == 400
    assert reason in b"".join(reply.body).decode()
