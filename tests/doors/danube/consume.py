"""Consumes with Danube's own client, in an environment of its own.

`python consume.py URL TOPIC SUBSCRIPTION TYPE NAME` prints a line of JSON for each message that is received, and one
for each that is acknowledged, until it is ended. It repeats an acknowledgement that fails because no server is there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import grpc
from danube import DanubeClientBuilder, DanubeError, SubType

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)


def tell(what: str, message: Any) -> None:
    place = message.msg_id.topic_name, message.msg_id.topic_offset
    line = [what, time.monotonic(), *place, message.payload.decode()]
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def main(url: str, topic: str, subscription: str, kind: str, name: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    consumer = (
        client.new_consumer()
        .with_topic(topic)
        .with_consumer_name(name)
        .with_subscription(subscription)
        .with_subscription_type(SubType[kind])
        .build()
    )
    while True:
        try:
            await consumer.subscribe()
            break
        except DanubeError:
            # The first producer creates the topic.
            await asyncio.sleep(0.05)
    queue = await consumer.receive()
    sys.stdout.write(json.dumps(["subscribed", time.monotonic()]) + "\n")
    sys.stdout.flush()
    received: asyncio.Queue[Any] = asyncio.Queue()

    async def acknowledge() -> None:
        while True:
            message = await received.get()
            while True:
                try:
                    await consumer.ack(message)
                    break
                except grpc.aio.AioRpcError as error:
                    if error.code() not in AGAIN:
                        raise
                    await asyncio.sleep(0.1)
            tell("acknowledged", message)

    async def receive() -> None:
        while True:
            message = await queue.get()
            tell("received", message)
            received.put_nowait(message)

    await asyncio.gather(receive(), *(acknowledge() for _ in range(8)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
