"""Any bytes are answered with a 4xx and a reason, or become rows, and no other request is affected."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from frazil.doors.telemetry.decompression import decompress
from frazil.errors import RequestError
from frazil.formats.loki.labels import LabelsError, parse
from frazil.formats.loki.messages import PushRequest
from tests.doors.loki.support import push, push_body, snappy
from tests.doors.telemetry.support import Served, among_bad_ones, rows, run, settings
from tests.formats.loki.support import message, plain, requests, rows_of


def check_rows(body: bytes) -> None:
    """Checks that a valid message becomes the rows that the Protobuf runtime sees in it."""
    try:
        expected = PushRequest.FromString(body)
    except DecodeError:
        return
    found = rows_of(body)
    bodies = [
        entry.line.decode("utf-8", "replace")
        for stream in expected.streams
        if readable(stream.labels)
        for entry in stream.entries
    ]
    assert [row["body"] for row in plain(found)] == bodies
    lost = sum(len(stream.entries) for stream in expected.streams) - len(bodies)
    assert sum(rejected.records for rejected in found.rejected.values()) == lost


def readable(labels: bytes) -> bool:
    try:
        parse(labels.decode("utf-8", "replace"))
    except LabelsError:
        return False
    return True


@given(body=st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    check_rows(body)


@given(request=requests, data=st.data())
def test_damaged_messages(request: list[Any], data: st.DataObject) -> None:
    body = bytearray(message(*request))
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] ^= 1 << data.draw(st.integers(0, 7))
    check_rows(bytes(body[: data.draw(st.integers(0, len(body)))]))


@given(request=requests, data=st.data())
def test_damaged_blocks(request: list[Any], data: st.DataObject) -> None:
    body = bytearray(snappy(message(*request)))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(RequestError):
        check_rows(decompress(bytes(body), "snappy", 1 << 20))


def test_the_good_ones_are_stored_among_bad_ones(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = settings(tmp_path)

    def bad() -> bytes:
        packed = bytearray(push_body("x" * chance.randrange(50), time=chance.randrange(1 << 60)))
        kind = chance.randrange(4)
        if kind == 0:
            return chance.randbytes(chance.randrange(1, 100))
        if kind == 1:
            packed[chance.randrange(len(packed))] ^= 0xFF
            return bytes(packed)
        if kind == 2:
            return push_body("x", labels='{app="shop"'[: chance.randrange(1, 11)])
        return bytes(packed[: chance.randrange(len(packed))])

    async def scenario(served: Served) -> None:
        async def send_bad() -> None:
            assert (await push(served, bad())).status_code in (204, 400, 413)

        async def send_good(number: int) -> int:
            return (await push(served, push_body(f"good {number}"))).status_code

        sent = await among_bad_ones(chance, send_good, send_bad)
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(int(body.split()[1]) for body in found if body.startswith("good ")) == sent

    run(config, scenario)
