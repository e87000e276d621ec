"""Any bytes are answered with a 4xx and a reason, or become rows, and no other request is affected."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import RequestError
from tests.doors.prometheus.support import PATH, packed, samples, write
from tests.doors.telemetry.support import Served, among_bad_ones, rows, run, settings
from tests.formats.remote_write.support import requests, rows_of


@given(body=st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    with suppress(RequestError):
        rows_of(body)


@given(request=requests(exemplars=True, histograms=True), data=st.data())
def test_damaged_messages(request: Message, data: st.DataObject) -> None:
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(RequestError):
        rows_of(bytes(body[: data.draw(st.integers(0, len(body)))]))


def test_the_good_ones_are_stored_among_bad_ones(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = settings(tmp_path)

    def bad() -> bytes:
        body = samples(-1.0, time=chance.randrange(1, 1 << 62), job="x" * chance.randrange(50)).SerializeToString()
        kind = chance.randrange(3)
        if kind == 0:
            return chance.randbytes(chance.randrange(1, 100))
        if kind == 1:
            damaged = bytearray(packed(body))
            damaged[chance.randrange(len(damaged))] ^= 0xFF
            return bytes(damaged)
        return packed(bytes(body[: chance.randrange(len(body))]) + b"\xff")

    async def scenario(served: Served) -> None:
        async def send_bad() -> None:
            answer = await served.post(PATH, bad(), "prometheus", content_encoding="snappy")
            assert answer.status_code in (204, 400, 413), answer.text

        async def send_good(number: int) -> int:
            return (await write(served, samples(float(number), name="good"))).status_code

        sent = await among_bad_ones(chance, send_good, send_bad)
        found = await asyncio.to_thread(rows, config, "metrics")
        good = [row["value_double"] for row in found.to_pylist() if row["prometheus_name"] == "good"]
        assert sorted(good) == sent

    run(config, scenario)
