"""The ways in which strangers send records: every door with each of its encodings."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import httpx
import pyarrow as pa
import zstandard
from google.protobuf.json_format import MessageToJson

from frazil.doors.danube import wire
from frazil.doors.danube.ids import producer_id
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, SPANS, Signal
from frazil.ops.answers import ARROW_STREAM
from frazil.telemetry.loki_messages import PushRequest
from frazil.topics.messages import Message, to_batch
from tests.doors.loki.support import PATH as LOKI_PUSH
from tests.doors.prometheus.support import PATH as REMOTE_WRITE
from tests.doors.telemetry.process import OPEN, DoorProcess
from tests.doors.telemetry.support import JSON, PROTOBUF, TIME
from tests.doors.topics.support import NDJSON, encoded
from tests.faults.exporting import COLUMNS, Make, logs_of, points_of, samples_request, spans_of
from tests.fuzz import mutating
from tests.servers.child import free_ports

WAIT_SECONDS = 120.0
TOPIC, PRODUCER = "messages", "till"
TENANTS = ("good", "better")
"""Whose requests must all be stored; those of `BAD` need not be."""
BAD = "bad"

Pack = Callable[[bytes], bytes]
Mutate = Callable[[mutating.Chance, bytes, bytes], bytes]


class Answered(NamedTuple):
    status: int
    """As HTTP has it."""
    text: str


Send = Callable[[bytes, str], Awaitable[Answered]]
"""Sends a body for a tenant."""


class Way(NamedTuple):
    name: str
    topic: str
    column: str
    """Where the text is found again by which a record is known."""
    make: Make
    send: Send
    mutate: Mutate
    pack: Pack = bytes
    """The encoding of the body."""


class AllDoors(DoorProcess):
    """`frazil ingest` with the doors for telemetry and for topics, over HTTP and as Danube has them."""

    def __init__(self, folder: Path) -> None:
        self.http, self.danube = free_ports(2)
        more = {"server": {"port": self.http}, "danube": {"port": self.danube}}
        super().__init__(folder, {**OPEN, "FRAZIL__DANUBE__ENABLED": "true"}, **more)


@asynccontextmanager
async def every_way(doors: AllDoors) -> AsyncIterator[list[Way]]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        httpx.AsyncClient(timeout=WAIT_SECONDS, limits=limits) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{doors.ports.grpc}") as otlp,
        grpc.aio.insecure_channel(f"127.0.0.1:{doors.danube}") as danube,
    ):
        senders = _Senders(client)
        ports = doors.ports
        yield [
            *_otlp(senders, ports.http),
            *(_otlp_grpc(signal, otlp) for signal in SIGNALS),
            *_loki(senders, ports.loki),
            _remote_write(senders, ports.prometheus),
            *await _topics(senders, doors.http),
            await _danube(danube),
        ]


class _Senders:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    def http(self, port: int, path: str, **told: str) -> Send:
        headers = {name.replace("_", "-"): value for name, value in told.items() if value}

        async def send(body: bytes, tenant: str) -> Answered:
            answer = await self.client.post(
                f"http://127.0.0.1:{port}{path}",
                content=body,
                headers={**PROTOBUF, **headers, "x-scope-orgid": tenant},
            )
            return Answered(answer.status_code, answer.text)

        return send


_STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
}


def _grpc(channel: grpc.aio.Channel, method: str) -> Send:
    call = channel.unary_unary(method)

    async def send(body: bytes, tenant: str) -> Answered:
        try:
            await call(body, metadata=[("x-scope-orgid", tenant)], timeout=WAIT_SECONDS)
        except grpc.aio.AioRpcError as error:
            return Answered(_STATUSES.get(error.code(), 500), f"{error.code().name}: {error.details()}")
        return Answered(200, "")

    return send


# --- telemetry -------------------------------------------------------------------------------------------------


def snappy(body: bytes) -> bytes:
    packed: bytes = pa.compress(body, "snappy", asbytes=True)
    return packed


ENCODINGS: dict[str, Pack] = {
    "": bytes,
    "gzip": lambda body: gzip.compress(body, 1),
    "deflate": lambda body: zlib.compress(body, 1),
    "zstd": zstandard.compress,
}
_MAKE: dict[Signal, Make] = {LOGS: logs_of, SPANS: spans_of, METRICS: points_of}


def _way(signal: Signal, name: str, make: Make, send: Send, mutate: Mutate, pack: Pack = bytes) -> Way:
    return Way(name, signal.requests.topic, COLUMNS[signal], make, send, mutate, pack)


def _as_json(signal: Signal) -> Make:
    def make(texts: list[str], number: int) -> bytes:
        text: str = MessageToJson(signal.requests.message.FromString(_MAKE[signal](texts, number)))
        return text.encode()

    return make


def _otlp(senders: _Senders, port: int) -> Sequence[Way]:
    ways = []
    for signal in SIGNALS:
        for encoding, pack in ENCODINGS.items():
            name = f"otlp {signal.requests.topic} {encoding or 'identity'}"
            send = senders.http(port, signal.path, content_encoding=encoding)
            ways.append(_way(signal, name, _MAKE[signal], send, mutating.message, pack))
            send = senders.http(port, signal.path, content_encoding=encoding, **_JSON)
            ways.append(_way(signal, f"{name} json", _as_json(signal), send, mutating.json_text, pack))
    return ways


def _otlp_grpc(signal: Signal, channel: grpc.aio.Channel) -> Way:
    name, send = f"otlp {signal.requests.topic} grpc", _grpc(channel, f"/{signal.service}/Export")
    return _way(signal, name, _MAKE[signal], send, mutating.message)


_JSON = {"content_type": JSON["content-type"]}


def _loki(senders: _Senders, port: int) -> Sequence[Way]:
    def lines(texts: list[str], number: int) -> bytes:
        request = PushRequest()
        stream = request.streams.add(labels=b'{app="shop"}')
        for text in texts:
            entry = stream.entries.add(line=text.encode())
            entry.timestamp.seconds, entry.timestamp.nanos = divmod(TIME + number, 10**9)
            entry.structured_metadata.add(name=b"pod", value=b"a")
        found: bytes = request.SerializeToString()
        return found

    def json_lines(texts: list[str], number: int) -> bytes:
        values = [[str(TIME + number), text, {"pod": "a"}] for text in texts]
        return json.dumps({"streams": [{"stream": {"app": "shop"}, "values": values}]}).encode()

    pushed = [_way(LOGS, "loki push", lines, senders.http(port, LOKI_PUSH), mutating.message, snappy)]
    for encoding in ("", "gzip"):
        send = senders.http(port, LOKI_PUSH, content_encoding=encoding, **_JSON)
        name = f"loki push json {encoding or 'identity'}"
        pushed.append(_way(LOGS, name, json_lines, send, mutating.json_text, ENCODINGS[encoding]))
    return pushed


def _remote_write(senders: _Senders, port: int) -> Way:
    def samples(texts: list[str], number: int) -> bytes:
        serialized: bytes = samples_request(texts, number).SerializeToString()
        return serialized

    send = senders.http(port, REMOTE_WRITE, content_encoding="snappy")
    return _way(METRICS, "remote write", samples, send, mutating.message, snappy)


# --- topics ----------------------------------------------------------------------------------------------------


async def _topics(senders: _Senders, port: int) -> Sequence[Way]:
    (await senders.client.put(f"http://127.0.0.1:{port}/topics/{TOPIC}")).raise_for_status()

    def batch(texts: list[str], _: int) -> bytes:
        messages = [Message(text.encode(), 1, "till", {"shop": "north"}, "key", 1, 2) for text in texts]
        return encoded(to_batch(messages, 1))

    def json_lines(texts: list[str], _: int) -> bytes:
        lines = ({"payload": text, "key": "a", "attributes": {"b": "c"}, "publish_time": 1} for text in texts)
        return "\n".join(map(json.dumps, lines)).encode()

    def way(name: str, content_type: str, make: Make, mutate: Mutate) -> Way:
        send = senders.http(port, f"/topics/{TOPIC}", content_type=content_type)
        return Way(f"topic {name}", TOPIC, "payload", make, send, mutate)

    return [
        way("json lines", NDJSON, json_lines, _some_line),
        way("arrow", ARROW_STREAM, batch, _scratched),
        way("arrow cut", ARROW_STREAM, batch, mutating.damaged),
        way("raw", "application/octet-stream", lambda texts, _: texts[0].encode(), mutating.damaged),
    ]


def _some_line(chance: mutating.Chance, body: bytes, other: bytes) -> bytes:
    lines = body.split(b"\n")
    place = chance.randrange(len(lines))
    lines[place] = mutating.json_text(chance, lines[place], other.split(b"\n")[0])
    return b"\n".join(lines)


def _scratched(chance: mutating.Chance, body: bytes, _: bytes) -> bytes:
    return mutating.scratched(chance, body)


async def _danube(channel: grpc.aio.Channel) -> Way:
    topic = f"/frazil/{TOPIC}_danube"
    request: Any = wire.ProducerRequest(producer_name=PRODUCER, topic_name=topic, dispatch_strategy=wire.RELIABLE)
    await channel.unary_unary("/danube.ProducerService/CreateProducer")(request.SerializeToString())

    def message(texts: list[str], number: int) -> bytes:
        made: Any = wire.StreamMessage(
            request_id=number, payload=texts[0].encode(), publish_time=1, producer_name=PRODUCER, routing_key="a"
        )
        made.msg_id.topic_name, made.msg_id.producer_id = topic, producer_id(topic, PRODUCER)
        made.attributes.add(key="shop", value="north")
        serialized: bytes = made.SerializeToString()
        return serialized

    send = _grpc(channel, "/danube.ProducerService/SendMessage")
    return Way("danube", f"{TOPIC}_danube", "payload", message, send, mutating.message)
