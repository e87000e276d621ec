"""Produces with Danube's own client, in an environment of its own.

`python produce.py URL TOPIC NAME PARTITIONS COUNT KEYS` sends COUNT messages, one after the other for each key, and
prints a line of JSON for each one that is acknowledged. What fails because nobody is there is sent again.
"""

from __future__ import annotations

import asyncio
import json
import sys

import grpc
from danube import DanubeClientBuilder, DispatchStrategy

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)


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
    await producer.create()

    async def send(key: int) -> None:
        for number in range(key, count, keys):
            text = f"{name} {key} {number}"
            while True:
                try:
                    await producer.send_with_key(text.encode(), {"number": str(number)}, f"{name}-{key}")
                    break
                except grpc.aio.AioRpcError as error:
                    if error.code() not in AGAIN:
                        raise
                    await asyncio.sleep(0.1)
            sys.stdout.write(json.dumps(text) + "\n")
            sys.stdout.flush()

    await asyncio.gather(*map(send, range(keys)))
    await producer.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], *map(int, sys.argv[4:7])))
