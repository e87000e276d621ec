"""Does everything that Danube's own client can do, once, in an environment of its own.

`python tour.py URL` prints a line of JSON: a name, and what was seen.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import grpc
from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, ProducerOptions, SubType

SECONDS = 20


def tell(name: str, seen: Any) -> None:
    sys.stdout.write(json.dumps([name, seen]) + "\n")
    sys.stdout.flush()


async def producer_of(client: DanubeClient, topic: str, *, partitions: int = 0, reliable: bool = True) -> Any:
    builder = (
        client.new_producer()
        .with_topic(topic)
        .with_name("p")
        .with_options(ProducerOptions(max_retries=2))
        .with_dispatch_strategy(DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE)
    )
    producer = (builder.with_partitions(partitions) if partitions else builder).build()
    await producer.create()
    return producer


class Consuming:
    """Has a consumer and its queue."""

    def __init__(self, consumer: Any, queue: asyncio.Queue[Any]) -> None:
        self.consumer = consumer
        self.queue = queue

    @classmethod
    async def begin(cls, client: DanubeClient, topic: str, kind: SubType, name: str, *filters: str) -> Consuming:
        builder = client.new_consumer().with_topic(topic).with_consumer_name(name).with_subscription("s")
        consumer = builder.with_subscription_type(kind).with_key_filters(list(filters)).build()
        await consumer.subscribe()
        return cls(consumer, await consumer.receive())

    async def take(self, count: int) -> list[str]:
        """Receives this many messages and acknowledges them."""
        found = []
        for _ in range(count):
            message = await asyncio.wait_for(self.queue.get(), SECONDS)
            await self.consumer.ack(message)
            found.append(message.payload.decode())
        return found

    async def close(self) -> None:
        await self.consumer.close()


async def send_all(producer: Any, texts: str, keys: str | None = None) -> None:
    for number, text in enumerate(texts):
        if keys is None:
            await producer.send(text.encode(), {"n": str(number)})
        else:
            await producer.send_with_key(text.encode(), {}, keys[number])


async def whole(client: DanubeClient) -> None:
    """Sends one message with all its fields."""
    producer = await producer_of(client, "/tour/whole")
    one = await Consuming.begin(client, "/tour/whole", SubType.EXCLUSIVE, "c")
    await producer.send_with_key(b"\x00\xff", {"a": "b"}, "k")
    message = await asyncio.wait_for(one.queue.get(), SECONDS)
    await one.consumer.ack(message)
    tell("whole", [list(message.payload), dict(message.attributes), message.routing_key, message.producer_name])
    await one.close()


async def exclusive(client: DanubeClient) -> None:
    """A second consumer is refused, and is told so."""
    producer = await producer_of(client, "/tour/exclusive")
    one = await Consuming.begin(client, "/tour/exclusive", SubType.EXCLUSIVE, "a")
    try:
        await asyncio.wait_for(Consuming.begin(client, "/tour/exclusive", SubType.EXCLUSIVE, "b"), SECONDS)
        seen = "let in"
    except Exception as error:  # noqa: BLE001 - whatever its client makes of it
        seen = (
            "exclusive, and consumer 'a' has it"
            if "exclusive, and consumer 'a' has it" in str(error)
            else repr(error)
        )
    await send_all(producer, "0")
    tell("exclusive", [seen, *await one.take(1)])
    await one.close()


async def shared(client: DanubeClient) -> None:
    producer = await producer_of(client, "/tour/shared")
    one = await Consuming.begin(client, "/tour/shared", SubType.SHARED, "a")
    two = await Consuming.begin(client, "/tour/shared", SubType.SHARED, "b")
    await send_all(producer, "012345")
    tell("shared", sorted([*await one.take(3), *await two.take(3)]))
    await one.close()
    await two.close()


async def failover(client: DanubeClient) -> None:
    producer = await producer_of(client, "/tour/failover")
    first = await Consuming.begin(client, "/tour/failover", SubType.FAILOVER, "a")
    second = await Consuming.begin(client, "/tour/failover", SubType.FAILOVER, "b")
    await send_all(producer, "012")
    before = await first.take(3)
    await first.close()
    await send_all(producer, "345")
    tell("failover", [before, await second.take(3)])
    await second.close()


async def keys(client: DanubeClient) -> None:
    producer = await producer_of(client, "/tour/keys")
    west = await Consuming.begin(client, "/tour/keys", SubType.KEY_SHARED, "a", "w*")
    east = await Consuming.begin(client, "/tour/keys", SubType.KEY_SHARED, "b", "e?")
    for number, key in enumerate(["west", "e1", "north", "west", "e2", "w"]):
        await producer.send_with_key(str(number).encode(), {}, key)
    tell("keys", [await west.take(3), await east.take(2)])
    await west.close()
    await east.close()


async def refused(client: DanubeClient) -> None:
    """A message that is refused is delivered again."""
    producer = await producer_of(client, "/tour/refused")
    one = await Consuming.begin(client, "/tour/refused", SubType.EXCLUSIVE, "c")
    await send_all(producer, "0")
    message = await asyncio.wait_for(one.queue.get(), SECONDS)
    await one.consumer.nack(message, delay_ms=10, reason="not now")
    tell("refused", [message.payload.decode(), *await one.take(1)])
    await one.close()


async def partitions(client: DanubeClient) -> None:
    producer = await producer_of(client, "/tour/parts", partitions=3)
    one = await Consuming.begin(client, "/tour/parts", SubType.EXCLUSIVE, "c")
    await send_all(producer, "012345678")
    tell("partitions", sorted(await one.take(9)))
    await one.close()


async def not_reliable(client: DanubeClient) -> None:
    producer = await producer_of(client, "/tour/loose", reliable=False)
    one = await Consuming.begin(client, "/tour/loose", SubType.EXCLUSIVE, "c")
    await send_all(producer, "012")
    tell("not reliable", [(await asyncio.wait_for(one.queue.get(), SECONDS)).payload.decode() for _ in range(3)])
    await one.close()


async def too_large(client: DanubeClient) -> None:
    """The producer is told at once, and can go on."""
    producer = await producer_of(client, "/tour/large")
    try:
        await asyncio.wait_for(producer.send(bytes(5_000_000), {}), SECONDS)
    except grpc.aio.AioRpcError as error:
        code = error.code().name
    except Exception as error:  # noqa: BLE001 - whatever its client makes of it
        code = type(error).__name__
    await producer.send(b"small", {})
    tell("too large", code)


async def main(url: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    for stop in (whole, exclusive, shared, failover, keys, refused, partitions, not_reliable, too_large):
        await stop(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
