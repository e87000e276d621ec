"""Sends damaged requests to every door of a real process, among good ones.

Each is answered for itself, none with a fault of the server, and all good ones are stored once.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from frazil.scan.read_api import read
from frazil.scan.tenants import HEADER
from frazil.web.answers import ARROW_STREAM
from tests.fuzz import danube_calls
from tests.fuzz.fuzzer import GOOD, Fuzzer, Stored
from tests.fuzz.senders import DANUBE_TOPIC, TOPIC, every_sender
from tests.fuzz.serve_process import AllDoors

DELIVERED_SECONDS = 120.0


def fuzz(folder: Path, seed: int, rounds: int, *, pipeline: bool = False) -> Counter[str]:
    doors = AllDoors(folder, pipeline=pipeline)
    try:
        doors.await_open()
        fuzzer = asyncio.run(_rounds(doors, random.Random(seed), rounds, str(folder)))
        doors.await_healthy()
        check_stored(doors, fuzzer.stored)
        check_log(doors.child.log().splitlines())
        assert doors.child.alive
        return fuzzer.counts
    except AssertionError as error:
        state = "lives" if doors.child.alive else "is dead"
        raise AssertionError(f"{error}\nThe process {state}:\n{doors.child.log()[-4000:]}") from error
    finally:
        doors.stop()


async def _rounds(doors: AllDoors, chance: random.Random, rounds: int, hidden: str) -> Fuzzer:
    async with every_sender(doors) as sent:
        fuzzer = Fuzzer(sent, chance, hidden)
        consumer = await danube_calls.subscribe(sent.danube, DANUBE_TOPIC)
        for _ in range(rounds):
            await fuzzer.round()
            assert not fuzzer.faults, "\n".join(fuzzer.faults)
        texts = fuzzer.stored[f"{TOPIC}_danube", "payload", ""]
        await danube_calls.receive(sent.danube, consumer, [text.encode() for text in texts], DELIVERED_SECONDS)
    return fuzzer


def check_stored(doors: AllDoors, stored: Stored) -> None:
    """Checks what is stored, by opening the folder and by asking the process."""
    for (topic, column, tenant), texts in stored.items():
        for found in (
            read(topic, config=doors.config, tenant=tenant or None).table()[column],
            _asked(doors, f"SELECT {column} FROM {topic}", tenant)[column],
        ):
            assert Counter(filter(_is_good, map(_text, found.to_pylist()))) == Counter(texts), (topic, tenant)


def _asked(doors: AllDoors, query: str, tenant: str) -> pa.Table:
    headers = {"accept": ARROW_STREAM, **({HEADER: tenant} if tenant else {})}
    answer = httpx.post(f"{doors.url}/sql", content=query, headers=headers, timeout=120)
    assert answer.status_code == 200, answer.text
    return pa.ipc.open_stream(answer.content).read_all()


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _is_good(text: str) -> bool:
    return text.startswith(GOOD)


def check_log(lines: Iterable[str]) -> None:
    """Checks the server's log: input of strangers is no error of the server."""
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert not [line for line in logged if line["level"] in ("error", "critical")]


def show(seed: int, counts: Counter[str]) -> None:
    print(f"seed {seed}: {sum(counts.values())} requests, {dict(sorted(counts.items()))}")  # noqa: T201 - with -s


def test_among_good_ones(tmp_path: Path, seed: int) -> None:
    counts = fuzz(tmp_path / "doors", seed, rounds=15)
    show(seed, counts)
    for door in ("otlp", "loki", "remote", "topic", "danube", "frames", "asked", "sql"):
        assert counts[f"{door} 400"] > 0, door


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(3))
def test_among_good_ones_for_minutes(tmp_path: Path, seed: int, turn: int) -> None:
    show(seed + turn, fuzz(tmp_path / "doors", seed + turn, rounds=300, pipeline=turn == 0))
