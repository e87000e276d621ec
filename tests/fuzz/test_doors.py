"""Damaged requests to every door of a real process, among good ones: each is answered for itself, none with a fault
of the server's, and all good ones are stored, once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from frazil.query.reading import read
from tests.fuzz.mutating import damaged
from tests.fuzz.ways import BAD, TENANTS, TOPIC, AllDoors, Answered, Way, every_way

TOGETHER = 40
"""Requests that are on their way at once; half of them are good."""
TRIES = 5
"""How often a good one may be told to come again."""
PAUSE_SECONDS = 0.2
GOOD = "good_"

Stored = dict[tuple[str, str, str], list[str]]
"""Texts of good requests that were acknowledged, by topic, column and tenant."""


class Fuzzer:
    def __init__(self, ways: list[Way], chance: random.Random) -> None:
        self._ways = ways
        self._doors: defaultdict[str, list[Way]] = defaultdict(list)
        for way in ways:
            self._doors[_door(way)].append(way)
        self._chance = chance
        self._number = 0
        self.stored: Stored = defaultdict(list)
        self.counts: Counter[str] = Counter()

    async def round(self) -> None:
        """Of each request all is chosen before any is sent, so that a seed repeats them."""
        sent = []
        for _ in range(TOGETHER // 2):
            sent += [self._good(self._some_way()), self._bad(self._some_way())]
        await asyncio.gather(*sent)

    def _some_way(self) -> Way:
        """Of any door as likely as of any other, but for the one with most."""
        door = self._chance.choice((*self._doors, "otlp", "otlp"))
        return self._chance.choice(self._doors[door])

    def _texts(self, prefix: str) -> tuple[list[str], int]:
        self._number += 1
        count = self._chance.choice((1, 1, 3))
        return [f"{prefix}{self._number}_{each}" for each in range(count)], self._number * 10

    async def _send(self, way: Way, body: bytes, tenant: str) -> Answered:
        try:
            return await way.send(body, tenant)
        except httpx.TransportError as error:
            raise AssertionError(f"{way.name}: {error!r} for {body[:4000].hex()}") from error

    async def _good(self, way: Way) -> None:
        texts, number = self._texts(GOOD)
        # Those that have but one message in a request.
        texts = texts[:1] if way.name in ("topic raw", "danube") else texts
        tenant = self._chance.choice(TENANTS)
        body = way.pack(way.make(texts, number))
        for _ in range(TRIES):
            answer = await self._send(way, body, tenant)
            self.counts[f"good {answer.status}"] += 1
            if answer.status not in (429, 503):
                break
            await asyncio.sleep(PAUSE_SECONDS)
        assert answer.status in (200, 204), (way.name, answer)
        self.stored[way.topic, way.column, tenant if _has_tenants(way) else ""] += texts

    async def _bad(self, way: Way) -> None:
        (texts, number), (others, other) = self._texts("bad_"), self._texts("bad_")
        body, second = way.make(texts, number), way.make(others, other)
        match self._chance.randrange(10):
            case 0:
                body = damaged(self._chance, way.pack(body), way.pack(second))
            case 1:
                # Encoded as somebody else's is.
                body = self._chance.choice(self._ways).pack(way.mutate(self._chance, body, second))
            case _:
                body = way.pack(way.mutate(self._chance, body, second))
        answer = await self._send(way, body, BAD)
        self.counts[f"{_door(way)} {answer.status}"] += 1
        assert 200 <= answer.status < 500, (way.name, answer, body[:4000].hex())


def _door(way: Way) -> str:
    return way.name.split()[0]


def _has_tenants(way: Way) -> bool:
    return not way.topic.startswith(TOPIC)


def fuzz(folder: Path, seed: int, rounds: int) -> Counter[str]:
    doors = AllDoors(folder)
    try:
        doors.await_open()
        fuzzer = asyncio.run(_rounds(doors, random.Random(seed), rounds))
        assert doors.child.alive, doors.child.log()[-4000:]
        check_stored(doors, fuzzer.stored)
        check_log(doors.child.log().splitlines())
        return fuzzer.counts
    except AssertionError as error:
        state = "lives" if doors.child.alive else "is dead"
        raise AssertionError(f"{error}\nThe process {state}:\n{doors.child.log()[-4000:]}") from error
    finally:
        doors.stop()


async def _rounds(doors: AllDoors, chance: random.Random, rounds: int) -> Fuzzer:
    async with every_way(doors) as ways:
        fuzzer = Fuzzer(ways, chance)
        for _ in range(rounds):
            await fuzzer.round()
    return fuzzer


def check_stored(doors: AllDoors, stored: Stored) -> None:
    for (topic, column, tenant), texts in stored.items():
        table = read(topic, config=doors.config, tenant=tenant).table() if tenant else None
        table = read(topic, config=doors.config).table() if table is None else table
        found = (
            each.decode(errors="replace") if isinstance(each, bytes) else each for each in table[column].to_pylist()
        )
        assert Counter(text for text in found if text and text.startswith(GOOD)) == Counter(texts), (topic, tenant)


def check_log(lines: Iterable[str]) -> None:
    """What a stranger sends is no error of the server's."""
    told = [json.loads(line) for line in lines if line.startswith("{")]
    assert not [line for line in told if line["level"] in ("error", "critical")]


def show(seed: int, counts: Counter[str]) -> None:
    print(f"seed {seed}: {sum(counts.values())} requests, {dict(sorted(counts.items()))}")  # noqa: T201 - with -s


def test_among_good_ones(tmp_path: Path, seed: int) -> None:
    counts = fuzz(tmp_path / "doors", seed, rounds=25)
    show(seed, counts)
    for door in ("otlp", "loki", "remote", "topic", "danube"):
        assert counts[f"{door} 400"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(3))
def test_among_good_ones_for_minutes(tmp_path: Path, seed: int, turn: int) -> None:
    show(seed + turn, fuzz(tmp_path / "doors", seed + turn, rounds=500))
