"""Runs the door in this process, and calls it as any gRPC client does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from frazil.app.parts.topics import TopicsPart
from frazil.config.model import Config
from frazil.doors.danube import wire
from frazil.log.log import Log
from frazil.ops.metrics import create_registry

TOPIC = "/default/orders"

METHODS = {
    "Discovery/TopicLookup": wire.TopicLookupResponse,
    "Discovery/TopicPartitions": wire.TopicPartitionsResponse,
    "ProducerService/CreateProducer": wire.ProducerResponse,
    "ProducerService/SendMessage": wire.MessageResponse,
    "ConsumerService/Subscribe": wire.ConsumerResponse,
    "ConsumerService/ReceiveMessages": wire.StreamMessage,
    "ConsumerService/Ack": wire.AckResponse,
    "ConsumerService/Nack": wire.NackResponse,
    "HealthCheck/HealthCheck": wire.HealthCheckResponse,
}


class Calls:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    async def __call__(self, method: str, request: Any) -> Any:
        body = request if isinstance(request, bytes) else request.SerializeToString()
        return METHODS[method].FromString(await self.channel.unary_unary(f"/danube.{method}")(body))

    async def refused(self, method: str, request: Any) -> tuple[grpc.StatusCode, str]:
        """Returns how a call fails."""
        try:
            answer = await self(method, request)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""
        raise AssertionError(f"it was answered: {answer}")

    def receive(self, consumer: int) -> Any:
        """Opens a stream of messages."""
        request = wire.ReceiveRequest(request_id=1, consumer_id=consumer)
        path = "/danube.ConsumerService/ReceiveMessages"
        return self.channel.unary_stream(path, response_deserializer=wire.StreamMessage.FromString)(
            request.SerializeToString()
        )

    async def producer(self, name: str = "p", topic: str = TOPIC, **fields: Any) -> int:
        request = wire.ProducerRequest(
            request_id=1, producer_name=name, topic_name=topic, **{"dispatch_strategy": wire.RELIABLE, **fields}
        )
        created = await self("ProducerService/CreateProducer", request)
        number: int = created.producer_id
        return number

    async def send(self, payload: bytes, producer: int, name: str = "p", topic: str = TOPIC, **fields: Any) -> Any:
        return await self("ProducerService/SendMessage", message(payload, producer, name, topic, **fields))

    async def subscribe(self, name: str = "c", kind: int = wire.EXCLUSIVE, topic: str = TOPIC) -> int:
        created = await self("ConsumerService/Subscribe", subscription(name, kind, topic))
        number: int = created.consumer_id
        return number

    async def ack(self, received: Any) -> None:
        await self("ConsumerService/Ack", acknowledgement(received.msg_id.topic_offset, received.msg_id.topic_name))


def message(payload: bytes, producer: int, name: str = "p", topic: str = TOPIC, **fields: Any) -> Any:
    found = wire.StreamMessage(request_id=7, payload=payload, producer_name=name, publish_time=5, **fields)
    found.msg_id.producer_id, found.msg_id.topic_name = producer, topic
    return found


def subscription(name: str = "c", kind: int = wire.EXCLUSIVE, topic: str = TOPIC, **fields: Any) -> Any:
    return wire.ConsumerRequest(
        request_id=1, topic_name=topic, consumer_name=name, subscription="s", subscription_type=kind, **fields
    )


def acknowledgement(offset: int, topic: str = TOPIC, subscription: str = "s") -> Any:
    found = wire.AckRequest(request_id=1, subscription_name=subscription)
    found.msg_id.topic_name, found.msg_id.topic_offset = topic, offset
    return found


def run(
    folder: Path,
    scenario: Callable[[Calls, TopicsPart], Awaitable[None]],
    settings: Mapping[str, Any] | None = None,
    **danube: Any,
) -> None:
    """Runs each function with a new log on the same folder. `settings` are those of the door and others."""

    async def main() -> None:
        config = Config.model_validate(
            {"data_dir": folder / "data", "danube": {"port": 0, **danube}, **(settings or {})}
        )
        with Log(config) as log:
            part = TopicsPart(config, create_registry(), lambda: log)
            await part.start()
            try:
                async with grpc.aio.insecure_channel(f"127.0.0.1:{part.danube_port}") as channel:
                    await asyncio.wait_for(scenario(Calls(channel), part), 60)
            finally:
                await part.stop()

    asyncio.run(main())
