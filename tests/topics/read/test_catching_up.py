"""Tests a reader that begins with a million messages, most of them cold, while a producer goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from frazil.topics.messages import MessageRun
from frazil.topics.read.starts import EARLIEST
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.options import Kind
from tests.topics.support import TOPIC, Shop

COLD, WARM, NEW = 900_000, 100_000, 20_000
STEP = 50_000
LENGTH = 100
"""A payload has this many bytes, of which eight are its number."""


def batch(start: int, count: int) -> pa.RecordBatch:
    payloads = np.zeros((count, LENGTH), np.uint8)
    payloads[:, :8] = np.arange(start, start + count, dtype=">i8").view(np.uint8).reshape(count, 8)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(LENGTH), count, [None, pa.py_buffer(payloads.tobytes())])
    return pa.record_batch({"payload": fixed.cast(pa.binary())})


def numbers(batch: pa.RecordBatch) -> np.ndarray:
    payloads = batch.column("payload")
    data = np.frombuffer(b"".join(payloads.to_pylist()), np.uint8).reshape(len(payloads), LENGTH)
    return data[:, :8].copy().view(">i8").ravel()


async def streamed(shop: Shop) -> AsyncGenerator[MessageRun, None]:
    async for run in await shop.topics.create_message_stream(TOPIC, EARLIEST):
        yield run


async def subscribed(shop: Shop) -> AsyncGenerator[Delivered, None]:
    """Receives messages and acknowledges them durably."""
    subscriptions = SubscriptionManager(shop.topics, shop.log, "a test")
    consumer = (await subscriptions.subscribe(TOPIC, "s", Kind.EXCLUSIVE, EARLIEST)).join("c")
    try:
        while True:
            runs = await consumer.receive(10_000)
            await consumer.ack_all(runs)
            for run in runs:
                yield run
    finally:
        await subscriptions.close()


@pytest.mark.parametrize("follow", [streamed, subscribed])
def test_every_message_once_up_to_the_tail(
    tmp_path: Path, follow: Callable[[Shop], AsyncGenerator[MessageRun | Delivered, None]]
) -> None:
    async def body() -> None:
        with Shop(tmp_path) as shop:
            await shop.topics.create_topic(TOPIC)
            for start in range(0, COLD + WARM, STEP):
                await shop.topics.store(TOPIC, batch(start, STEP))
                shop.seal(TOPIC)
                if start + STEP == COLD:
                    shop.move(TOPIC)
            assert shop.trim(needed_from=COLD) == COLD

            async def produce() -> None:
                for start in range(COLD + WARM, COLD + WARM + NEW, 100):
                    await shop.topics.store(TOPIC, batch(start, 100))
                    await asyncio.sleep(0)

            producing = asyncio.create_task(produce())
            before, most, at = pa.total_allocated_bytes(), 0, 0
            async with aclosing(follow(shop)) as runs:
                async for run in runs:
                    assert run.first == at
                    assert (numbers(run.batch) == np.arange(at, run.end)).all()
                    at = run.end
                    if at < COLD:
                        most = max(most, pa.total_allocated_bytes() - before)
                    if at == COLD + WARM + NEW:
                        break
            await producing
            assert await shop.topics.get_write_position(TOPIC) == {0: at}
            assert most < 60 << 20, "what is read is not gathered"

    asyncio.run(body())
