"""Reads a topic from its first message, when all messages are in the table and nowhere else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.topics.support import TOPIC, Shop

from bench.figures import AtLeast, Bench, Figure, Round, figure
from frazil.topics.messages import Message
from frazil.topics.read.starts import EARLIEST
from frazil.topics.storage import TopicStorage
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.options import Kind

MESSAGES, FEW = 1_000_000, 200_000
STEP = 50_000
LENGTH = 100
BARE = "a bare scan of the same Parquet files"


def caught_up(bench: Bench) -> Iterator[Figure]:
    """Reads messages of 100 bytes, as a stream and as a durable subscription that acknowledges all of them."""
    count = FEW if bench.quick else MESSAGES
    bench.say(f"{count:,} messages that are in the table only")
    for name, rounds in asyncio.run(_measured(bench, count)).items():
        yield figure(f"cold messages, {name}", "messages/s", rounds, BARE, AtLeast(0.3))


async def _measured(bench: Bench, count: int) -> dict[str, list[Round]]:
    found: dict[str, list[Round]] = {"read as a stream": [], "received and acknowledged": []}
    with Shop(bench.folder / "catch-up") as shop:
        await shop.topics.create_topic(TOPIC)
        for start in range(0, count, STEP):
            await shop.topics.store(TOPIC, _batch(start))
            shop.seal(TOPIC)
        shop.move(TOPIC)
        await shop.topics.store(TOPIC, [Message(b"the tail")])
        shop.seal(TOPIC)
        assert shop.trim(needed_from=count) == count
        files = [task.file for task in shop.table(TOPIC).scan().plan_files()]
        for number in range(2 if bench.quick else 5):
            before = count / _scan([each.file_path for each in files])
            streamed = count / await _stream(TopicStorage(shop.log), count)
            between = count / _scan([each.file_path for each in files])
            # Each round has a storage of its own, because a storage caches what it has read for some seconds.
            subscriptions = SubscriptionManager(TopicStorage(shop.log), shop.log, "a benchmark")
            subscribed = count / await _subscription(subscriptions, f"s{number}", count)
            await subscriptions.close()
            after = count / _scan([each.file_path for each in files])
            found["read as a stream"].append(Round(streamed, (before + between) / 2))
            found["received and acknowledged"].append(Round(subscribed, (between + after) / 2))
    return found


def _batch(start: int) -> pa.RecordBatch:
    payloads = np.random.default_rng(start).integers(32, 127, (STEP, LENGTH), np.uint8)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(LENGTH), STEP, [None, pa.py_buffer(payloads.tobytes())])
    return pa.record_batch({"payload": fixed.cast(pa.binary())})


def _scan(paths: list[str]) -> float:
    """Returns the seconds that it takes to read all columns, file after file."""
    started = time.perf_counter()
    for path in paths:
        with pq.ParquetFile(path.removeprefix("file://")) as file:
            for batch in file.iter_batches(STEP):
                assert batch.num_rows
    return time.perf_counter() - started


async def _stream(topics: TopicStorage, count: int) -> float:
    started, rows = time.perf_counter(), 0
    async for run in await topics.create_message_stream(TOPIC, EARLIEST, follow=False):
        rows += len(run.batch)
    assert rows == count + 1
    return time.perf_counter() - started


async def _subscription(subscriptions: SubscriptionManager, name: str, count: int) -> float:
    started, rows = time.perf_counter(), 0
    consumer = (await subscriptions.subscribe(TOPIC, name, Kind.EXCLUSIVE, EARLIEST)).join("c")
    while rows < count + 1:
        runs = await consumer.receive(10_000)
        rows += sum(len(run.batch) for run in runs)
        await consumer.ack_all(runs)
    return time.perf_counter() - started
