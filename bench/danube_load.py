"""Clients of Danube's protocol, as cheap as gRPC lets them be. They run in processes of their own."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import grpc.aio

from bench.figures import Latencies
from bench.grpc_echo import METHOD
from frazil.doors.danube import wire
from frazil.doors.danube.ids import producer_id

SEND = "/danube.ProducerService/SendMessage"


class Load(NamedTuple):
    messages: int
    seconds: float
    latencies: Latencies

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run `work` in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def create(port: int, topic: str, name: str = "p") -> None:
    request = wire.ProducerRequest(
        request_id=1, producer_name=name, topic_name=topic, dispatch_strategy=wire.RELIABLE
    )
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        channel.unary_unary("/danube.ProducerService/CreateProducer")(request.SerializeToString(), timeout=30)


def subscribe(port: int, topic: str, subscription: str) -> int:
    request = wire.ConsumerRequest(
        request_id=1,
        topic_name=topic,
        consumer_name="c",
        subscription=subscription,
        subscription_type=wire.EXCLUSIVE,
    )
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        body = channel.unary_unary("/danube.ConsumerService/Subscribe")(request.SerializeToString(), timeout=30)
    number: int = wire.ConsumerResponse.FromString(body).consumer_id
    return number


def message(topic: str, payload: bytes, name: str = "p") -> bytes:
    found = wire.StreamMessage(
        request_id=1, payload=payload, producer_name=name, publish_time=time.time_ns() // 10**6
    )
    found.msg_id.producer_id, found.msg_id.topic_name = producer_id(topic, name), topic
    body: bytes = found.SerializeToString()
    return body


def echo(port: int, body: bytes, count: int, callers: int) -> Load:
    return asyncio.run(_call(port, METHOD, body, count, callers))


def send(port: int, body: bytes, count: int, callers: int) -> Load:
    return asyncio.run(_call(port, SEND, body, count, callers))


async def _call(port: int, method: str, body: bytes, count: int, callers: int) -> Load:
    """Let each caller call again as soon as it is answered."""
    latencies: list[float] = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(method)
        for _ in range(50):
            await call(body)

        async def caller() -> None:
            while len(latencies) < count:
                began = time.perf_counter()
                await call(body)
                latencies.append(time.perf_counter() - began)

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return Load(len(latencies), time.perf_counter() - started, Latencies.of(latencies))


def fan_out(
    port: int, topic: str, consumers: list[int], subscriptions: list[str], count: int, pause: float = 0.0
) -> Load:
    """Produce messages, and receive and acknowledge each of them in every subscription."""
    return asyncio.run(_fan_out(port, topic, consumers, subscriptions, count, pause))


async def _fan_out(
    port: int, topic: str, consumers: list[int], subscriptions: list[str], count: int, pause: float
) -> Load:
    latencies: list[float] = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        receive = channel.unary_stream(
            "/danube.ConsumerService/ReceiveMessages", response_deserializer=wire.StreamMessage.FromString
        )
        ack, produce = channel.unary_unary("/danube.ConsumerService/Ack"), channel.unary_unary(SEND)

        async def consume(consumer: int, subscription: str) -> None:
            stream = receive(wire.ReceiveRequest(request_id=1, consumer_id=consumer).SerializeToString())
            acks = []
            async for found in stream:
                latencies.append(time.perf_counter() - float(found.payload[:20]))
                request = wire.AckRequest(request_id=1, subscription_name=subscription)
                request.msg_id.CopyFrom(found.msg_id)
                acks.append(asyncio.ensure_future(ack(request.SerializeToString())))
                if len(acks) == count:
                    break
            await asyncio.gather(*acks)
            stream.cancel()

        async def produce_all() -> None:
            for _ in range(count):
                payload = f"{time.perf_counter():020.9f}".encode() + bytes(1004)
                await produce(message(topic, payload))
                await asyncio.sleep(pause)

        consuming = [asyncio.create_task(consume(*each)) for each in zip(consumers, subscriptions, strict=True)]
        await asyncio.sleep(0.5)
        started = time.perf_counter()
        await asyncio.gather(produce_all(), *consuming)
        return Load(len(latencies), time.perf_counter() - started, Latencies.of(latencies))
