"""Produces with Danube's own client, in an environment of its own.

`python produce.py URL TOPIC NAME PARTITIONS COUNT KEYS` sends COUNT messages, one after the other for each key, and
prints a line of JSON for each one that is acknowledged. It repeats messages that fail because no server is there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial

import grpc
from danube import DanubeClientBuilder, DispatchStrategy

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)


async def again(call: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await call()
            return
        except grpc.aio.AioRpcError as error:
            if error.code() not in AGAIN:
                raise
        await asyncio.sleep(0.1)


async def main(url: str, topic: str, name: str, partitions: int, count: int, keys: int) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    producer = (
        client.new_producer()
        .with_topic(topic)
        .with_name(name)
        .with_partitions(partitions)
        .with_dispatch_strategy(DispatchStrategy.RELIABLE)
        .build()
    )
    await again(producer.create)

    async def send(key: int) -> None:
        for number in range(key, count, keys):
            text = f"{name} {key} {number}"
            await again(partial(producer.send_with_key, text.encode(), {"number": str(number)}, f"{name}-{key}"))
            sys.stdout.write(json.dumps(text) + "\n")
            sys.stdout.flush()

    await asyncio.gather(*map(send, range(keys)))
    await producer.close()


if __name__ == "__main__":
    url, topic, name, *numbers = sys.argv[1:]
    asyncio.run(main(url, topic, name, *map(int, numbers)))
