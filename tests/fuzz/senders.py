"""Sends records as strangers do: through every door with each of its encodings."""

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
from tests.fuzz import mutation
from tests.fuzz.answers import Answer, of_error
from tests.fuzz.call import Call
from tests.fuzz.danube_calls import danube_calls
from tests.fuzz.grpc_frames import frame_calls
from tests.fuzz.http_calls import ODD, http_calls
from tests.fuzz.serve_process import AllDoors

WAIT_SECONDS = 120.0
TOPIC, PRODUCER = "messages", "till"
TENANTS = ("good", "better")
"""All requests of these tenants must be stored; those of `BAD` need not be."""
BAD = "bad"

Pack = Callable[[bytes], bytes]
Mutate = Callable[[mutation.Chance, bytes, bytes], bytes]


Send = Callable[[bytes, str], Awaitable[Answer]]
"""Sends a body for a tenant."""


class Sender(NamedTuple):
    name: str
    topic: str
    column: str
    """This column holds the text by which a record is found again."""
    make: Make
    send: Send
    mutate: Mutate
    pack: Pack = bytes
    """Compresses the body."""


class Targets(NamedTuple):
    """Everything that can be sent to a process."""

    senders: list[Sender]
    calls: list[Call]
    danube: grpc.aio.Channel


@asynccontextmanager
async def every_sender(doors: AllDoors) -> AsyncIterator[Targets]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        httpx.AsyncClient(timeout=WAIT_SECONDS, limits=limits) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{doors.ports.grpc}") as otlp,
        grpc.aio.insecure_channel(f"127.0.0.1:{doors.danube}") as danube,
    ):
        poster = _HttpPoster(client)
        ports = doors.ports
        senders = [
            *_otlp(poster, ports.http),
            *(_otlp_grpc(signal, otlp, compression) for signal in SIGNALS for compression in _COMPRESSIONS),
            *_loki(poster, ports.loki),
            *_remote_write(poster, ports.prometheus),
            *await _topics(poster, doors.http),
            await _danube(danube),
        ]
        calls = [
            *danube_calls(danube),
            *frame_calls(ports.grpc, [signal.service for signal in SIGNALS], [logs_of(["bad_frame"], 1)]),
            *http_calls(client, doors.url),
        ]
        yield Targets(senders, calls, danube)


class _HttpPoster:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    def post(self, port: int, path: str, **headers: str) -> Send:
        given = {name.replace("_", "-"): value for name, value in headers.items() if value}

        async def send(body: bytes, tenant: str) -> Answer:
            answer = await self.client.post(
                f"http://127.0.0.1:{port}{path}",
                content=body,
                headers={**PROTOBUF, **given, "x-scope-orgid": tenant},
            )
            return Answer(answer.status_code, answer.text)

        return send


def _grpc(channel: grpc.aio.Channel, method: str, compression: grpc.Compression | None = None) -> Send:
    call = channel.unary_unary(method)

    async def send(body: bytes, tenant: str) -> Answer:
        try:
            metadata = [("x-scope-orgid", tenant)]
            await call(body, metadata=metadata, timeout=WAIT_SECONDS, compression=compression)
        except grpc.aio.AioRpcError as error:
            return of_error(error)
        return Answer(200, "")

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


def _sender(signal: Signal, name: str, make: Make, send: Send, mutate: Mutate, pack: Pack = bytes) -> Sender:
    return Sender(name, signal.requests.topic, COLUMNS[signal], make, send, mutate, pack)


def _as_json(signal: Signal) -> Make:
    def make(texts: list[str], number: int) -> bytes:
        text: str = MessageToJson(signal.requests.message.FromString(_MAKE[signal](texts, number)))
        return text.encode()

    return make


def _otlp(poster: _HttpPoster, port: int) -> Sequence[Sender]:
    senders = []
    for signal in SIGNALS:
        for encoding, pack in ENCODINGS.items():
            name = f"otlp {signal.requests.topic} {encoding or 'identity'}"
            send = poster.post(port, signal.path, content_encoding=encoding)
            senders.append(_sender(signal, name, _MAKE[signal], send, mutation.message, pack))
            send = poster.post(port, signal.path, content_encoding=encoding, **_JSON)
            senders.append(_sender(signal, f"{name} json", _as_json(signal), send, mutation.json_text, pack))
    return senders


_COMPRESSIONS = (grpc.Compression.NoCompression, grpc.Compression.Deflate, grpc.Compression.Gzip)


def _otlp_grpc(signal: Signal, channel: grpc.aio.Channel, compression: grpc.Compression) -> Sender:
    send = _grpc(channel, f"/{signal.service}/Export", compression)
    return _sender(
        signal, f"otlp {signal.requests.topic} grpc {compression.name}", _MAKE[signal], send, mutation.message
    )


_JSON = {"content_type": JSON["content-type"]}


def _loki(poster: _HttpPoster, port: int) -> Sequence[Sender]:
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

    pushed = [_sender(LOGS, "loki push", lines, poster.post(port, LOKI_PUSH), mutation.message, snappy)]
    for encoding in ("", "gzip"):
        send = poster.post(port, LOKI_PUSH, content_encoding=encoding, **_JSON)
        name = f"loki push json {encoding or 'identity'}"
        pushed.append(_sender(LOGS, name, json_lines, send, mutation.json_text, ENCODINGS[encoding]))
    return pushed


def _remote_write(poster: _HttpPoster, port: int) -> Sequence[Sender]:
    def samples(texts: list[str], number: int) -> bytes:
        serialized: bytes = samples_request(texts, number).SerializeToString()
        return serialized

    def second_samples(texts: list[str], number: int) -> bytes:
        serialized: bytes = second(samples_request(texts, number)).SerializeToString()
        return serialized

    kinds = {"remote write": (samples, PROTOBUF["content-type"]), "remote write 2": (second_samples, REMOTE_WRITE_2)}
    return [
        _sender(
            METRICS,
            name,
            make,
            poster.post(port, REMOTE_WRITE, content_encoding="snappy", content_type=kind),
            mutation.message,
            snappy,
        )
        for name, (make, kind) in kinds.items()
    ]


# --- topics ----------------------------------------------------------------------------------------------------


async def _topics(poster: _HttpPoster, port: int) -> Sequence[Sender]:
    for name in (TOPIC, ODD):
        (await poster.client.put(f"http://127.0.0.1:{port}/topics/{name}")).raise_for_status()

    def batch(texts: list[str], _: int) -> bytes:
        messages = [Message(text.encode(), 1, "till", {"shop": "north"}, "key", 1, 2) for text in texts]
        return encoded(to_batch(messages, 1))

    def json_lines(texts: list[str], _: int) -> bytes:
        lines = ({"payload": text, "key": "a", "attributes": {"b": "c"}, "publish_time": 1} for text in texts)
        return "\n".join(map(json.dumps, lines)).encode()

    def sender(name: str, content_type: str, make: Make, mutate: Mutate) -> Sender:
        send = poster.post(port, f"/topics/{TOPIC}", content_type=content_type)
        return Sender(f"topic {name}", TOPIC, "payload", make, send, mutate)

    return [
        sender("json lines", NDJSON, json_lines, _some_line),
        sender("arrow", ARROW_STREAM, batch, _scratched),
        sender("arrow cut", ARROW_STREAM, batch, mutation.damaged),
        sender("raw", "application/octet-stream", lambda texts, _: texts[0].encode(), mutation.damaged),
    ]


def _some_line(chance: mutation.Chance, body: bytes, other: bytes) -> bytes:
    lines = body.split(b"\n")
    place = chance.randrange(len(lines))
    lines[place] = mutation.json_text(chance, lines[place], other.split(b"\n")[0])
    return b"\n".join(lines)


def _scratched(chance: mutation.Chance, body: bytes, _: bytes) -> bytes:
    return mutation.scratched(chance, body)


DANUBE_TOPIC = f"/frazil/{TOPIC}_danube"


async def _danube(channel: grpc.aio.Channel) -> Sender:
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
    return Sender("danube", f"{TOPIC}_danube", "payload", message, send, mutation.message)
