"""Sends bodies that crash a decoder that trusts them: each is refused for itself, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from frazil.doors.otlp.signals import SIGNALS
from frazil.scan.read_api import read
from tests.faults.telemetry_clients import COLUMNS
from tests.fuzz.answers import Answer
from tests.fuzz.senders import Sender, every_sender
from tests.fuzz.serve_process import AllDoors

GROUPS = b"\x7b" * 120_000
"""Each byte begins a group of an unknown field."""
NEGATIVE = bytes.fromhex("0affffffffffffffffff01616263")
"""A message with a negative length."""
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
    """Every hostile body is sent to every door, among good requests of another tenant."""
    door = AllDoors(tmp_path / "door")
    try:
        door.await_open()
        stored = asyncio.run(_send_all(door))
        assert door.child.alive, door.child.log()
        for signal in SIGNALS:
            found = read(signal.requests.topic, config=door.config, tenant="good").table()[COLUMNS[signal]]
            assert Counter(found.to_pylist()) == Counter(stored[signal.requests.topic])
        logged = [json.loads(line) for line in door.child.log().splitlines() if "a request was refused" in line]
        assert {line["topic"] for line in logged} == {signal.requests.topic for signal in SIGNALS}
        assert any(line["left_out"] for line in logged)
    finally:
        door.stop()


async def _send_all(door: AllDoors) -> dict[str, list[str]]:
    """Returns what was stored of good requests, by topic."""
    stored: dict[str, list[str]] = {signal.requests.topic: [] for signal in SIGNALS}
    async with every_sender(door) as every:
        senders = [sender for sender in every.senders if sender.topic in stored]

        async def good(sender: Sender, text: str, number: int) -> None:
            answer = await sender.send(sender.pack(sender.make([text], number)), "good")
            assert answer.status in (200, 204), (sender.name, answer)
            stored[sender.topic].append(text)

        async def bad(sender: Sender, body: bytes) -> None:
            check_refused(sender, await sender.send(sender.pack(_within(sender, body)), "bad"))

        for number, body in enumerate(HOSTILE.values()):
            sent = []
            for place, sender in enumerate(senders):
                sent += [bad(sender, body), good(sender, f"good_{number}_{place}", number * 1000 + place)]
            await asyncio.gather(*sent)
    return stored


def _within(sender: Sender, body: bytes) -> bytes:
    """Puts the body into the first message field of a request: field 1, but field 5 in one door."""
    return b"\x2a" + body[1:] if sender.name == "remote write 2" and body[:1] == b"\x0a" else body


def check_refused(sender: Sender, answer: Answer) -> None:
    assert answer.status == 400, (sender.name, answer)
    assert answer.text, sender.name
    assert not [word for word in INTERNAL if word in answer.text], (sender.name, answer)
