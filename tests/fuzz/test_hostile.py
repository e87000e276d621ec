"""Bodies that end or upset a decoder that trusts them: each is refused for itself, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from frazil.doors.otlp.signals import SIGNALS
from frazil.scan.read_api import read
from tests.faults.telemetry_clients import COLUMNS
from tests.fuzz.answering import Answered
from tests.fuzz.process import AllDoors
from tests.fuzz.ways import Way, every_way

GROUPS = b"\x7b" * 120_000
"""Each byte begins a group that nobody knows."""
NEGATIVE = bytes.fromhex("0affffffffffffffffff01616263")
"""A message whose length is negative."""
HOSTILE = {
    "groups within groups": GROUPS,
    "groups within groups in a message": b"\x0a\xc0\xa9\x07" + GROUPS,
    "a few groups": b"\x7b" * 200,
    "a negative length": NEGATIVE,
    "a negative length within": b"\x0a\x0e" + NEGATIVE,
    "a length beyond the end": bytes.fromhex("0affffffff0761"),
    "field number 0": b"\x02\x01a",
    "a number that does not end": b"\x08" + b"\xff" * 20,
}
INTERNAL = ("panic", "slice", "index", "Traceback", "Exception", "pyo3", "ptars")


def test_each_is_refused_for_itself(tmp_path: Path) -> None:
    """Every hostile body to every door, among good requests of another tenant."""
    door = AllDoors(tmp_path / "door")
    try:
        door.await_open()
        stored = asyncio.run(_send_all(door))
        assert door.child.alive, door.child.log()
        for signal in SIGNALS:
            found = read(signal.requests.topic, config=door.config, tenant="good").table()[COLUMNS[signal]]
            assert Counter(found.to_pylist()) == Counter(stored[signal.requests.topic])
        told = [json.loads(line) for line in door.child.log().splitlines() if "a request was refused" in line]
        assert {line["topic"] for line in told} == {signal.requests.topic for signal in SIGNALS}
        assert any(line["left_out"] for line in told)
    finally:
        door.stop()


async def _send_all(door: AllDoors) -> dict[str, list[str]]:
    """What was stored of good requests, by topic."""
    stored: dict[str, list[str]] = {signal.requests.topic: [] for signal in SIGNALS}
    async with every_way(door) as every:
        ways = [way for way in every.ways if way.topic in stored]

        async def good(way: Way, text: str, number: int) -> None:
            answer = await way.send(way.pack(way.make([text], number)), "good")
            assert answer.status in (200, 204), (way.name, answer)
            stored[way.topic].append(text)

        async def bad(way: Way, body: bytes) -> None:
            check_refused(way, await way.send(way.pack(_within(way, body)), "bad"))

        for number, body in enumerate(HOSTILE.values()):
            sent = []
            for place, way in enumerate(ways):
                sent += [bad(way, body), good(way, f"good_{number}_{place}", number * 1000 + place)]
            await asyncio.gather(*sent)
    return stored


def _within(way: Way, body: bytes) -> bytes:
    """A message of the first field of all requests but one, where it is the fifth that is a message."""
    return b"\x2a" + body[1:] if way.name == "remote write 2" and body[:1] == b"\x0a" else body


def check_refused(way: Way, answer: Answered) -> None:
    assert answer.status == 400, (way.name, answer)
    assert answer.text, way.name
    assert not [word for word in INTERNAL if word in answer.text], (way.name, answer)
