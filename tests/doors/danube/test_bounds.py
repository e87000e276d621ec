"""Tests how much clients can make the server create and keep."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode as Code

from frazil.app.parts.topics import TopicsPart
from frazil.config.sections.section import MIB
from frazil.doors.danube import consumers, producers, wire
from frazil.doors.danube.consumers import Consumers
from frazil.doors.danube.ids import LONGEST_NAME, producer_id
from frazil.doors.danube.producers import Producers
from frazil.errors import ProducerRefused
from frazil.topics.read.memory_budget import LEAST_BYTES
from tests.doors.danube.support import TOPIC, Calls, message, run, subscription


def creation(name: str, topic: str = TOPIC, **fields: Any) -> Any:
    return wire.ProducerRequest(
        request_id=1, producer_name=name, topic_name=topic, **{"dispatch_strategy": wire.RELIABLE, **fields}
    )


def test_a_topic_gets_no_more_partitions_than_it_may_have(tmp_path: Path) -> None:
    method = "ProducerService/CreateProducer"

    async def before(calls: Calls, part: TopicsPart) -> None:
        code, reason = await calls.refused(method, creation("p", f"{TOPIC}-part-9999"))
        assert (code, "1 to 100, the setting messages.max_partitions" in reason) == (Code.INVALID_ARGUMENT, True)
        assert await part._topics().list_topics() == []
        await calls.producer(topic=f"{TOPIC}-part-99")
        assert await part._topics().partitions(TOPIC) == 100
        assert (await calls.refused(method, creation("p", f"{TOPIC}-part-100")))[0] is Code.INVALID_ARGUMENT

    async def after(calls: Calls, part: TopicsPart) -> None:
        """A topic that has more partitions keeps them."""
        number = await calls.producer(topic=f"{TOPIC}-part-99")
        await calls.send(b"x", number, topic=f"{TOPIC}-part-99")
        assert (await calls.refused(method, creation("p", f"{TOPIC}-part-100")))[0] is Code.INVALID_ARGUMENT
        await asyncio.gather(*(calls.producer(topic=f"/default/new-part-{each}") for each in (3, 1, 0, 2)))
        assert (await calls.refused(method, creation("p", "/default/new-part-4")))[0] is Code.INVALID_ARGUMENT
        assert await part._topics().partitions("/default/new") == 4

    run(tmp_path, before)
    run(tmp_path, after, settings={"messages": {"max_partitions": 4}})


def test_producers_that_were_made_up_are_forgotten_and_exclusive_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "MOST_SHARED", 10)

    async def scenario(calls: Calls, part: TopicsPart) -> None:
        alone = "/default/alone"
        await calls.producer()
        known = Producers(part._topics(), time.monotonic)
        await known.create(creation("first", alone, producer_access_mode=wire.EXCLUSIVE_ACCESS))
        for number in [*range(50), 0]:
            name = f"made-up-{number}"
            await known.send(message(b"x", producer_id(TOPIC, name), name))
            assert known.count <= 11
        with pytest.raises(ProducerRefused, match="has the producer 'first'"):
            await known.create(creation("second", alone))

    run(tmp_path, scenario)


def test_names_and_patterns_have_a_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MOST_REMEMBERED", 3)
    long = "x" * (LONGEST_NAME + 1)

    async def scenario(calls: Calls, part: TopicsPart) -> None:
        await calls.producer()
        for method, request in (
            ("ProducerService/CreateProducer", creation(long)),
            ("ProducerService/SendMessage", message(b"x", producer_id(TOPIC, long), long)),
            ("ConsumerService/Subscribe", subscription(long)),
            ("ConsumerService/Subscribe", subscription("c", wire.KEY_SHARED, key_filters=[long])),
            (
                "ConsumerService/Subscribe",
                subscription("c", wire.KEY_SHARED, key_filters=[str(number) for number in range(1001)]),
            ),
        ):
            code, reason = await calls.refused(method, request)
            assert (code, "at most 1,000" in reason) == (Code.INVALID_ARGUMENT, True), method
        topics = part._topics()
        door = Consumers(topics, topics.subscriptions, topics.log.store, "http://x", time.monotonic)
        made = [await door.subscribe(subscription(f"c{number}", wire.SHARED)) for number in range(6)]
        assert len(door._registrations) == 3
        assert [await door.seen(each.consumer_id) for each in made] == [True] * 6

    run(tmp_path, scenario)


def test_what_a_consumer_has_not_taken_counts_though_it_is_acknowledged(tmp_path: Path) -> None:
    """Messages of such a topic are acknowledged before they are sent, so no subscription counts them any more."""
    payload = bytes(20_000)

    async def scenario(calls: Calls, part: TopicsPart) -> None:
        topics = part._topics()
        door = Consumers(topics, topics.subscriptions, topics.log.store, "http://x", time.monotonic)
        producer = await calls.producer(dispatch_strategy=wire.NON_RELIABLE)
        consumer = (await door.subscribe(subscription())).consumer_id
        await asyncio.gather(*(calls.send(payload, producer) for _ in range(100)))
        while topics.memory.held < 100 * len(payload):
            await asyncio.sleep(0.01)
        stream = door.receive(wire.ReceiveRequest(request_id=1, consumer_id=consumer))
        await anext(stream)
        assert 90 * len(payload) < topics.memory.held < 110 * len(payload)
        for _ in range(50):
            await anext(stream)
        assert 40 * len(payload) < topics.memory.held < 60 * len(payload)
        await stream.aclose()
        assert topics.memory.held == 0

    run(tmp_path, scenario)


def test_what_consumers_do_not_read_counts_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    idle, payload = 30, bytes(20_000)

    async def scenario(calls: Calls, part: TopicsPart) -> None:
        topics = part._topics()
        door = Consumers(topics, topics.subscriptions, topics.log.store, "http://x", time.monotonic)
        producer = await calls.producer(dispatch_strategy=wire.NON_RELIABLE)
        streams = []
        for number in range(idle + 1):
            request = wire.ConsumerRequest(
                request_id=1, topic_name=TOPIC, consumer_name="c", subscription=f"s{number}", subscription_type=0
            )
            consumer = (await door.subscribe(request)).consumer_id
            streams.append(door.receive(wire.ReceiveRequest(request_id=1, consumer_id=consumer)))
        await asyncio.gather(*(calls.send(payload, producer) for _ in range(100)))
        # Each stream gets its next message only when it has taken the one before.
        for stream in streams[:idle]:
            assert (await anext(stream)).payload == payload
        # The subscriptions hold memory too.
        most = MIB + 2 * (idle + 1) * (LEAST_BYTES + len(payload))
        assert idle * len(payload) < topics.memory.held < most < idle * 100 * len(payload) / 5
        offsets = [(await anext(streams[idle])).msg_id.topic_offset for _ in range(100)]
        assert offsets == list(range(100))
        for stream in streams:
            await stream.aclose()
        await topics.subscriptions.close()
        assert topics.memory.held == 0

    run(tmp_path, scenario, settings={"messages": {"max_memory_mb": 2}})
