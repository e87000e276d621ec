from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from frazil.app.parts.topics import TopicsPart
from frazil.doors.danube import wire
from frazil.topics.message_limits import MOST_BYTES
from tests.doors.danube.support import TOPIC, Calls, acknowledgement, message, run, subscription

Code = grpc.StatusCode


def test_a_message_comes_back_as_it_was_sent(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer = await calls.producer()
        consumer = await calls.subscribe()
        attributes = [{"key": "a", "value": "1"}, {"key": "ü", "value": ""}]
        sent: dict[str, Any] = {
            "attributes": attributes,
            "routing_key": "k",
            "schema_id": 2**63 - 1,
            "schema_version": 3,
        }
        assert (await calls.send(b"\0\xff", producer, **sent)).request_id == 7
        await calls.send(b"", producer)
        first, second = [message async for message, _ in zip_first(calls.receive(consumer), 2)]
        assert (first.payload, first.publish_time, first.producer_name) == (b"\0\xff", 5, "p")
        assert {each.key: each.value for each in first.attributes} == {"a": "1", "ü": ""}
        assert (first.routing_key, first.schema_id, first.schema_version) == ("k", 2**63 - 1, 3)
        assert (first.msg_id.topic_name, first.msg_id.topic_offset, first.msg_id.producer_id) == (TOPIC, 0, producer)
        assert first.subscription_name == "s"
        assert (second.payload, second.msg_id.topic_offset) == (b"", 1)
        assert not any(second.HasField(name) for name in ("routing_key", "schema_id", "schema_version"))

    run(tmp_path, scenario)


async def zip_first(stream: Any, count: int) -> Any:
    """Yields the first messages of a stream, each with its number."""
    number = 0
    async for each in stream:
        yield each, number
        number += 1
        if number == count:
            stream.cancel()
            return


async def received(stream: Any, count: int) -> list[Any]:
    return [each async for each, _ in zip_first(stream, count)]


def test_ids_outlive_the_process(tmp_path: Path) -> None:
    ids: list[int] = []

    async def before(calls: Calls, part: TopicsPart) -> None:
        ids.extend([await calls.producer(), await calls.subscribe()])
        await calls.send(b"1", ids[0])
        (first,) = await received(calls.receive(ids[1]), 1)
        await calls.ack(first)
        await calls.send(b"2", ids[0])

    async def after(calls: Calls, part: TopicsPart) -> None:
        """The client has not noticed the restart, so it neither creates a producer nor subscribes again."""
        await calls.send(b"3", ids[0])
        found = await received(calls.receive(ids[1]), 2)
        assert [each.payload for each in found] == [b"2", b"3"]
        health = wire.HealthCheckRequest(request_id=1, client=wire.CONSUMER, id=ids[1])
        assert (await calls("HealthCheck/HealthCheck", health)).status == wire.OK

    run(tmp_path, before)
    run(tmp_path, after)


def test_an_acknowledgement_of_what_the_former_process_delivered(tmp_path: Path) -> None:
    ids: list[int] = []
    delivered: list[Any] = []

    async def before(calls: Calls, part: TopicsPart) -> None:
        ids.extend([await calls.producer(), await calls.subscribe()])
        for payload in (b"1", b"2", b"3"):
            await calls.send(payload, ids[0])
        delivered.extend(await received(calls.receive(ids[1]), 3))

    async def after(calls: Calls, part: TopicsPart) -> None:
        await calls.ack(delivered[1])
        found = await received(calls.receive(ids[1]), 2)
        assert [each.payload for each in found] == [b"1", b"3"]
        code, reason = await calls.refused("ConsumerService/Ack", acknowledgement(3))
        assert (code, "was not delivered" in reason) == (Code.INVALID_ARGUMENT, True)

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_partition_has_no_partitions(tmp_path: Path) -> None:
    """Nobody else could name a topic that is called like a partition."""

    async def scenario(calls: Calls, part: TopicsPart) -> None:
        name = f"{TOPIC}-part-1-part-0"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls.producer(topic=name)
        assert caught.value.code() is Code.INVALID_ARGUMENT
        assert "is a partition already" in (caught.value.details() or "")
        assert (await calls.refused("ConsumerService/Subscribe", subscription(topic=name)))[
            0
        ] is Code.INVALID_ARGUMENT
        assert await part._topics().list_topics() == []

    run(tmp_path, scenario)


def test_connections_beyond_the_bound_are_closed(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        await calls.producer()
        opened = [await asyncio.open_connection("127.0.0.1", part.danube_port) for _ in range(6)]
        closed = [asyncio.create_task(reader.read()) for reader, _ in opened]
        # The channel of the calls is the first of the three that are allowed.
        await asyncio.wait(closed[2:], timeout=30)
        assert [task.done() for task in closed[2:]] == [True] * 4
        assert not any(task.done() for task in closed[:2])
        await calls.producer()
        for (_, writer), task in zip(opened, closed, strict=True):
            writer.close()
            await asyncio.gather(task, return_exceptions=True)

    run(tmp_path, scenario, max_connections=3)


def test_partitions(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        async def partitions(topic: str = TOPIC) -> list[str]:
            request = wire.TopicLookupRequest(request_id=3, topic=topic)
            return list((await calls("Discovery/TopicPartitions", request)).partitions)

        assert await partitions() == []
        names = [f"{TOPIC}-part-{number}" for number in range(4)]
        ids = await asyncio.gather(*(calls.producer(topic=name) for name in reversed(names)))
        assert len(set(ids)) == 4
        assert await partitions() == names
        assert await partitions(names[2]) == [names[2]]
        consumers = {name: await calls.subscribe(topic=name) for name in names}
        for name, number in zip(reversed(names), ids, strict=True):
            await calls.send(name.encode(), number, topic=name)
        for name, consumer in consumers.items():
            (found,) = await received(calls.receive(consumer), 1)
            assert (found.payload.decode(), found.msg_id.topic_name, found.msg_id.topic_offset) == (name, name, 0)
        code, reason = await calls.refused("ConsumerService/Subscribe", subscription())
        assert (code, "has 4 partitions" in reason) == (Code.INVALID_ARGUMENT, True)
        lookup = await calls("Discovery/TopicLookup", wire.TopicLookupRequest(request_id=3, topic=names[0]))
        assert (lookup.response_type, lookup.request_id) == (wire.CONNECT, 3)
        assert lookup.connect_url == f"http://127.0.0.1:{part.danube_port}"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "topic", ["", "orders/x", "/orders", "/a/b/c", "/default/or ders", "/default/-x", "/default/"]
)
def test_names_that_no_topic_can_have(tmp_path: Path, topic: str) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        lookup = wire.TopicLookupRequest(request_id=1, topic=topic)
        producer = wire.ProducerRequest(request_id=1, producer_name="p", topic_name=topic)
        for method, request in (
            ("Discovery/TopicLookup", lookup),
            ("Discovery/TopicPartitions", lookup),
            ("ProducerService/CreateProducer", producer),
            ("ConsumerService/Subscribe", subscription(topic=topic)),
        ):
            code, reason = await calls.refused(method, request)
            assert (code, bool(reason)) == (Code.INVALID_ARGUMENT, True), method

    run(tmp_path, scenario)


def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        refused = calls.refused

        code, reason = await refused("ConsumerService/Subscribe", subscription())
        assert (code, TOPIC[1:].replace("/", ".") in reason) == (Code.NOT_FOUND, True)
        producer = await calls.producer()
        assert (await refused("ProducerService/SendMessage", message(b"", 5)))[0] is Code.NOT_FOUND
        assert (await refused("ProducerService/SendMessage", message(b"", producer, "other")))[0] is Code.NOT_FOUND
        code, reason = await refused("ProducerService/SendMessage", message(b"x" * MOST_BYTES, producer))
        assert (code, f"{MOST_BYTES:,}" in reason) == (Code.INVALID_ARGUMENT, True)
        code, reason = await refused("ProducerService/SendMessage", message(b"", producer, schema_id=2**64 - 1))
        assert (code, "schema_id" in reason) == (Code.INVALID_ARGUMENT, True)
        assert (await refused("ProducerService/SendMessage", b"\xff"))[0] is Code.INVALID_ARGUMENT
        code, reason = await refused("ConsumerService/Ack", acknowledgement(0))
        assert (code, "Subscribe first" in reason) == (Code.INVALID_ARGUMENT, True)
        await calls.subscribe()
        for offset in (0, 10**15):
            code, reason = await refused("ConsumerService/Ack", acknowledgement(offset))
            assert (code, "was not delivered" in reason) == (Code.INVALID_ARGUMENT, True)
        nack = wire.NackRequest(request_id=1, subscription_name="s")
        nack.msg_id.topic_name = TOPIC
        assert (await refused("ConsumerService/Nack", nack))[0] is Code.INVALID_ARGUMENT
        code, reason = await refused("ConsumerService/Subscribe", subscription("other"))
        assert (code, "exclusive" in reason) == (Code.PERMISSION_DENIED, True)
        assert (await refused("ConsumerService/Subscribe", subscription(kind=wire.SHARED)))[
            0
        ] is Code.INVALID_ARGUMENT
        assert (await refused("ConsumerService/Subscribe", subscription(kind=9)))[0] is Code.INVALID_ARGUMENT
        # The reason contains the name, and clients take no long headers.
        code, reason = await refused("Discovery/TopicLookup", wire.TopicLookupRequest(topic="é" * 20_000))
        assert (code, "cannot be a topic" in reason or reason.endswith("…")) == (Code.INVALID_ARGUMENT, True)
        code, reason = await refused("ConsumerService/Subscribe", subscription(key_filters=["a*"]))
        assert (code, "are for key-shared" in reason) == (Code.INVALID_ARGUMENT, True)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls.producer(dispatch_strategy=wire.NON_RELIABLE)
        assert caught.value.code() is Code.FAILED_PRECONDITION
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls.producer(name="q", producer_access_mode=wire.EXCLUSIVE_ACCESS)
        assert caught.value.code() is Code.ALREADY_EXISTS
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls.producer(schema_ref={"subject": "orders", "use_latest": True})
        assert caught.value.code() is Code.UNIMPLEMENTED
        health = wire.HealthCheckRequest(request_id=1, client=wire.CONSUMER, id=1)
        assert (await calls("HealthCheck/HealthCheck", health)).status == wire.CLOSE
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls.channel.unary_unary("/danube_schema.SchemaRegistry/GetLatestSchema")(b"")
        assert caught.value.code() is Code.UNIMPLEMENTED
        await calls.send(b"fine", producer)

    run(tmp_path, scenario)


def test_a_message_that_is_refused_comes_again(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer, consumer = await calls.producer(), await calls.subscribe(kind=wire.SHARED)
        await calls.send(b"1", producer)
        stream = aiter(calls.receive(consumer))
        first = await anext(stream)
        nack = wire.NackRequest(request_id=1, subscription_name="s", delay_ms=1, reason="not today")
        nack.msg_id.CopyFrom(first.msg_id)
        await calls("ConsumerService/Nack", nack)
        again = await anext(stream)
        assert again.msg_id == first.msg_id
        await calls.ack(again)

    run(tmp_path, scenario)


def test_the_next_consumer_in_line_takes_over(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer = await calls.producer()
        first, second = [await calls.subscribe(name, wire.FAILOVER) for name in ("a", "b")]
        streams = calls.receive(first), calls.receive(second)
        await calls.send(b"1", producer)
        got = await anext(aiter(streams[0]))
        assert got.payload == b"1"
        streams[0].cancel()
        assert (await anext(aiter(streams[1]))).payload == b"1", "it was not acknowledged"

    run(tmp_path, scenario)


def test_messages_that_nobody_acknowledges(tmp_path: Path) -> None:
    """The messages are stored all the same, and are delivered at most once."""
    ids: list[int] = []

    async def before(calls: Calls, part: TopicsPart) -> None:
        ids.append(await calls.producer(dispatch_strategy=wire.NON_RELIABLE))
        ids.append(await calls.subscribe())
        for number in range(3):
            await calls.send(f"{number}".encode(), ids[0])
        found = await received(calls.receive(ids[1]), 3)
        assert [each.payload for each in found] == [b"0", b"1", b"2"]

    async def after(calls: Calls, part: TopicsPart) -> None:
        await calls.send(b"3", ids[0])
        (found,) = await received(calls.receive(ids[1]), 1)
        assert found.payload == b"3"
        await calls.ack(found)

    run(tmp_path, before)
    run(tmp_path, after)


def test_who_uses_a_name_that_is_in_use_takes_its_session_over(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer, consumer = await calls.producer(), await calls.subscribe()
        first = calls.receive(consumer)
        await calls.send(b"1", producer)
        assert (await anext(aiter(first))).payload == b"1"
        second = calls.receive(await calls.subscribe())
        assert (await anext(aiter(second))).payload == b"1"
        await calls.send(b"2", producer)
        assert (await anext(aiter(second))).payload == b"2"
        with pytest.raises(TimeoutError):
            # Its client would come back at once, and take the session from the other.
            await asyncio.wait_for(anext(aiter(first)), 0.5)

    run(tmp_path, scenario)


def test_a_topic_that_grows_does_not_mix_up_acknowledgements(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer = await calls.producer()
        stream = calls.receive(await calls.subscribe())
        for number in range(3):
            await calls.send(str(number).encode(), producer)
        assert [(await stream.read()).payload for _ in range(3)] == [b"0", b"1", b"2"]
        more = f"{TOPIC}-part-1"
        await calls.send(b"x", await calls.producer("q", more), "q", more)
        await part._topics().subscriptions.grow()
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0.5)
        assert not reading.done()
        reading.cancel()
        lag = (await part._topics().get_topic_stats(TOPIC)).subscriptions["s"].lag
        assert lag == {0: 3}, "its clients learn of other partitions when they subscribe next"

    run(tmp_path, scenario)


def test_a_subscription_that_was_deleted_is_not_made_again_by_a_stream(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        await calls.producer()
        number = await calls.subscribe()
        stream = calls.receive(number)
        await asyncio.sleep(0.1)
        await part._topics().subscriptions.delete(TOPIC, "s")
        with pytest.raises(grpc.aio.AioRpcError, match="was deleted"):
            await stream.read()
        again = asyncio.ensure_future(calls.receive(number).read())
        request = wire.HealthCheckRequest(request_id=1, client=wire.CONSUMER, id=number)
        while (await calls("HealthCheck/HealthCheck", request)).status != wire.CLOSE:
            await asyncio.sleep(0.05)
        assert not await part._topics().subscriptions.exists(f"{TOPIC}-part-0", "s")
        again.cancel()

    run(tmp_path, scenario)


def test_who_subscribed_and_never_receives_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.doors.danube.consumers.GONE_SECONDS", 0.5)

    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer = await calls.producer()
        await calls.subscribe("dead", wire.FAILOVER)
        stream = calls.receive(await calls.subscribe("alive", wire.FAILOVER))
        await calls.send(b"x", producer)
        assert [each.payload for each in await received(stream, 1)] == [b"x"]

    run(tmp_path, scenario)


def test_a_stream_goes_on_when_the_one_that_took_it_over_has_gone(tmp_path: Path) -> None:
    async def scenario(calls: Calls, part: TopicsPart) -> None:
        producer = await calls.producer()
        number = await calls.subscribe()
        old = calls.receive(number)
        await calls.send(b"1", producer)
        assert (await old.read()).payload == b"1"
        new = calls.receive(number)
        assert (await new.read()).payload == b"1"
        new.cancel()
        assert (await old.read()).payload == b"1"

    run(tmp_path, scenario)
