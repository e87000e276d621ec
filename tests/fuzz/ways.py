"""The ways in which strangers send records: every door with each of its encodings."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
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
from frazil.formats.loki.messages import PushRequest
from frazil.topics.messages import Message, to_batch
from frazil.web.answers import ARROW_STREAM
from tests.doors.http.support import NDJSON, encoded
from tests.doors.loki.support import PATH as LOKI_PUSH
from tests.doors.prometheus.support import PATH as REMOTE_WRITE
from tests.doors.prometheus.support import TYPE_2 as REMOTE_WRITE_2
from tests.doors.telemetry.support import JSON, PROTOBUF, TIME
from tests.faults.telemetry_clients import COLUMNS, Make, logs_of, points_of, samples_request, spans_of
from tests.formats.remote_write.v2_support import second
from tests.fuzz import mutating
from tests.fuzz.answering import Answered, of_error
from tests.fuzz.calls import Call
from tests.fuzz.danube import danube_calls
from tests.fuzz.frames import frame_calls
from tests.fuzz.process import AllDoors
from tests.fuzz.questions import ODD, questions

WAIT_SECONDS = 120.0
TOPIC, PRODUCER = "messages", "till"
TENANTS = ("good", "better")
"""Whose requests must all be stored; those of `BAD` need not be."""
BAD = "bad"

Pack = Callable[[bytes], bytes]
Mutate = Callable[[mutating.Chance, bytes, bytes], bytes]


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


class Everything(NamedTuple):
    """What can be sent to a process."""

    ways: list[Way]
    calls: list[Call]
    danube: grpc.aio.Channel


@asynccontextmanager
async def every_way(doors: AllDoors) -> AsyncIterator[Everything]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        httpx.AsyncClient(timeout=WAIT_SECONDS, limits=limits) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{doors.ports.grpc}") as otlp,
        grpc.aio.insecure_channel(f"127.0.0.1:{doors.danube}") as danube,
    ):
        senders = _Senders(client)
        ports = doors.ports
        ways = [
            *_otlp(senders, ports.http),
            *(_otlp_grpc(signal, otlp, compression) for signal in SIGNALS for compression in _COMPRESSIONS),
            *_loki(senders, ports.loki),
            *_remote_write(senders, ports.prometheus),
            *await _topics(senders, doors.http),
            await _danube(danube),
        ]
        calls = [
            *danube_calls(danube),
            *frame_calls(ports.grpc, [signal.service for signal in SIGNALS], [logs_of(["bad_frame"], 1)]),
            *questions(client, doors.url),
        ]
        yield Everything(ways, calls, danube)


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


def _grpc(channel: grpc.aio.Channel, method: str, compression: grpc.Compression | None = None) -> Send:
    call = channel.unary_unary(method)

    async def send(body: bytes, tenant: str) -> Answered:
        try:
            told = [("x-scope-orgid", tenant)]
            await call(body, metadata=told, timeout=WAIT_SECONDS, compression=compression)
        except grpc.aio.AioRpcError as error:
            return of_error(error)
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


_COMPRESSIONS = (grpc.Compression.NoCompression, grpc.Compression.Deflate, grpc.Compression.Gzip)


def _otlp_grpc(signal: Signal, channel: grpc.aio.Channel, compression: grpc.Compression) -> Way:
    send = _grpc(channel, f"/{signal.service}/Export", compression)
    return _way(
        signal, f"otlp {signal.requests.topic} grpc {compression.name}", _MAKE[signal], send, mutating.message
    )


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


def _remote_write(senders: _Senders, port: int) -> Sequence[Way]:
    def samples(texts: list[str], number: int) -> bytes:
        serialized: bytes = samples_request(texts, number).SerializeToString()
        return serialized

    def second_samples(texts: list[str], number: int) -> bytes:
        serialized: bytes = second(samples_request(texts, number)).SerializeToString()
        return serialized

    kinds = {"remote write": (samples, PROTOBUF["content-type"]), "remote write 2": (second_samples, REMOTE_WRITE_2)}
    return [
        _way(
            METRICS,
            name,
            make,
            senders.http(port, REMOTE_WRITE, content_encoding="snappy", content_type=kind),
            mutating.message,
            snappy,
        )
        for name, (make, kind) in kinds.items()
    ]


# --- topics ----------------------------------------------------------------------------------------------------


async def _topics(senders: _Senders, port: int) -> Sequence[Way]:
    for name in (TOPIC, ODD):
        (await senders.client.put(f"http://127.0.0.1:{port}/topics/{name}")).raise_for_status()

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


DANUBE_TOPIC = f"/frazil/{TOPIC}_danube"


async def _danube(channel: grpc.aio.Channel) -> Way:
    topic = DANUBE_TOPIC
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
