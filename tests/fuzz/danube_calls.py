"""Makes every call of Danube's services, with odd values in its fields and with damaged messages."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from frazil.doors.danube import wire
from frazil.doors.danube.ids import consumer_id, producer_id
from tests.doors.danube.support import Calls
from tests.fuzz.answers import Answer, of_error
from tests.fuzz.call import Call
from tests.fuzz.mutation import Chance, message

ODD = "/frazil/odd"
"""Callers may send anything to this topic."""
PART = f"{ODD}-part-0"
"""Naming another partition would add it to the topic, and consumers read one partition."""
METHODS: dict[str, type[Message]] = {
    "Discovery/TopicLookup": wire.TopicLookupRequest,
    "Discovery/TopicPartitions": wire.TopicLookupRequest,
    "ProducerService/CreateProducer": wire.ProducerRequest,
    "ProducerService/SendMessage": wire.StreamMessage,
    "ConsumerService/Subscribe": wire.ConsumerRequest,
    "ConsumerService/ReceiveMessages": wire.ReceiveRequest,
    "ConsumerService/Ack": wire.AckRequest,
    "ConsumerService/Nack": wire.NackRequest,
    "HealthCheck/HealthCheck": wire.HealthCheckRequest,
    "HealthCheck/NoSuchCall": wire.HealthCheckRequest,
}
_SUBSCRIPTION, _CONSUMER = "all", "reader"
_TOPICS = (
    *(ODD, f"{ODD}-part-3", f"{ODD}-part-10000", f"{ODD}-part-1-part-1", "odd"),
    *("", "/", "//", "/frazil/", "/frazil", "/a/b/c", "a.b.c", "logs", "/frazil/metrics", "other.topic", "nobody"),
    *(
        "-part-1",
        "_offset",
        "/frazil/..",
        "/../etc",
        "é",
        "\0",
        "a b",
        "x" * 20_000,
        "é" * 20_000,
        "/frazil/" + "y" * 300,
        "_dlq",
    ),
)
_NAMES = ("", "a", "\0", "é" * 40, "../../x", "/", "x" * 5000, "é" * 20_000, "_", "all#1")
_PATTERNS = ("*", "a*", "?", "", "[", "(", "*a" * 30 + "*b", "\0", "x" * 1000)
_NUMBERS = (0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_SIGNED = (0, 1, 2, 3, 4, -1, 2**31 - 1, -(2**31))
_WAITS = (0.05, 0.2, 1.5)
"""A stream is read for one of these times; refusals come after a second."""


def danube_calls(channel: grpc.aio.Channel) -> Iterator[Call]:
    for method, kind in METHODS.items():
        yield _call(channel, method, kind)


def _call(channel: grpc.aio.Channel, method: str, kind: type[Message]) -> Call:
    async def make(chance: Chance) -> Answer:
        body, other = (_odd(chance, kind()).SerializeToString() for _ in range(2))
        if chance.random() < 0.3:
            body = message(chance, body, other)
        wait = chance.choice(_WAITS)
        path = f"/danube.{method}"
        try:
            if method.endswith("ReceiveMessages"):
                return await _listen(channel.unary_stream(path)(body, timeout=60), wait)
            await channel.unary_unary(path)(body, timeout=60)
        except grpc.aio.AioRpcError as error:
            return of_error(error)
        return Answer(200, "")

    return Call(f"danube {method}", make)


async def _listen(stream: Any, seconds: float) -> Answer:
    """Reads a stream for this time. Errors are raised."""
    try:
        async with asyncio.timeout(seconds):
            while await stream.read() is not grpc.aio.EOF:
                pass
    except TimeoutError:
        stream.cancel()
    return Answer(200, "")


def _odd(chance: Chance, found: Any) -> Any:
    """Fills a message with usual values, but for a few odd fields."""
    fields = list(found.DESCRIPTOR.fields)
    odd = chance.sample(fields, min(len(fields), chance.choice((0, 1, 1, 2, 9))))
    for field in fields:
        if field.label == field.LABEL_REPEATED:
            many = getattr(found, field.name)
            for _ in range(chance.choice((1, 3, 300)) if field in odd else 0):
                if field.message_type is None:
                    many.append(chance.choice(_PATTERNS))
                else:
                    _odd(chance, many.add())
        elif field.message_type is None:
            setattr(found, field.name, _odd_value(chance, field) if field in odd else _usual_value(chance, field))
        elif field.name != "schema_ref" or field in odd:
            _odd(chance, getattr(found, field.name))
    return found


def _usual_value(chance: Chance, field: Any) -> Any:
    match field.name:
        case "topic" | "topic_name":
            return PART
        case "subscription" | "subscription_name":
            return _SUBSCRIPTION
        case "consumer_name" | "producer_name":
            return _CONSUMER
        case "producer_id":
            return producer_id(PART, _CONSUMER)
        case "consumer_id" | "id":
            return consumer_id(PART, _SUBSCRIPTION, "key_shared", _CONSUMER)
        case "subscription_type":
            return wire.KEY_SHARED
        case "dispatch_strategy":
            return wire.RELIABLE
        case "topic_offset":
            return chance.randrange(20)
    return field.default_value


def _odd_value(chance: Chance, field: Any) -> Any:
    if field.name in ("topic", "topic_name"):
        return chance.choice(_TOPICS)
    if field.cpp_type == field.CPPTYPE_STRING:
        return chance.choice(_NAMES) if field.type == field.TYPE_STRING else chance.randbytes(chance.choice((0, 9)))
    if field.cpp_type == field.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type == field.CPPTYPE_INT32:
        return chance.choice(_SIGNED)
    return chance.choice(_NUMBERS[:8] if field.cpp_type == field.CPPTYPE_UINT32 else _NUMBERS)


GOOD_SUBSCRIPTION = "neighbours"


async def subscribe(channel: grpc.aio.Channel, topic: str) -> int:
    """Subscribes, and returns the id of a consumer that gets all messages from now on."""
    request: Any = wire.ConsumerRequest(
        topic_name=topic, consumer_name="neighbour", subscription=GOOD_SUBSCRIPTION, subscription_type=wire.EXCLUSIVE
    )
    answer = await Calls(channel)("ConsumerService/Subscribe", request)
    number: int = answer.consumer_id
    return number


async def receive(channel: grpc.aio.Channel, consumer: int, wanted: Collection[bytes], seconds: float) -> None:
    """Receives until all wanted payloads were delivered, and acknowledges each message."""
    calls, missing = Calls(channel), set(wanted)
    stream = calls.receive(consumer)
    try:
        async with asyncio.timeout(seconds):
            while missing:
                got = await stream.read()
                missing.discard(got.payload)
                request: Any = wire.AckRequest(subscription_name=GOOD_SUBSCRIPTION)
                request.msg_id.CopyFrom(got.msg_id)
                await calls("ConsumerService/Ack", request)
    except TimeoutError:
        raise AssertionError(f"{len(missing)} messages were not delivered, such as {next(iter(missing))!r}") from None
    finally:
        stream.cancel()
