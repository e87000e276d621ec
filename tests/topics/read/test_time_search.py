from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from frazil.topics.messages import Message
from frazil.topics.read.starts import Start
from tests.topics.support import TIME, TOPIC, Shop


@pytest.mark.parametrize("seed", range(3))
def test_the_first_message_since_a_time_wherever_it_is(tmp_path: Path, seed: int) -> None:
    """Times of producers have no order, and the smallest offset is found."""
    rng = random.Random(seed)
    times: list[int] = []

    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)

            async def store(count: int) -> None:
                new = [TIME + 10 * len(times) + 10 * at + rng.randrange(-60, 60) for at in range(count)]
                await shop.topics.store(TOPIC, [Message(b"", time) for time in new])
                times.extend(new)

            for _ in range(4):
                await store(10)
                shop.seal(TOPIC)
                shop.move(TOPIC)
            for _ in range(3):
                await store(10)
                shop.seal(TOPIC)
            await store(10)
            for step in ("log", "trimmed", "shuffled"):
                if step == "trimmed":
                    assert shop.trim(needed_from=40) == 40
                if step == "shuffled":
                    shop.shuffle(seed=seed)
                for wanted in [0, *rng.sample(range(TIME - 100, TIME + 900), 12), max(times), max(times) + 1]:
                    expected = next((at for at, time in enumerate(times) if time >= wanted), len(times))
                    cursor = await shop.topics.cursor(TOPIC, 0, Start.since(wanted))
                    assert cursor.position == expected, (step, wanted)

    asyncio.run(body())
