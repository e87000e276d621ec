"""Serves Danube's API over gRPC."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from frazil.config.sections.danube import DanubeConfig
from frazil.doors.danube import wire
from frazil.doors.danube.consumers import Consumers
from frazil.doors.danube.discovery import Discovery
from frazil.doors.danube.producers import Producers
from frazil.errors import IdUnknown, RequestError
from frazil.web.connections import ConnectionMetrics, Connections
from frazil.web.failures import failure_of
from frazil.web.grpc.codes import code_of
from frazil.web.grpc.error_details import details
from frazil.web.grpc.port import connection_options, open_port

MOST_RECEIVED = 64 * 1024 * 1024
"""gRPC reads messages up to this size. We refuse those over our own, smaller limit with a reason, because clients
retry for ever what gRPC itself refuses."""
HELD_SECONDS = 8.0
"""A stream with an unknown consumer id is held open this long. Its client asks every 5 seconds whether its id is
known, learns that it is not, and subscribes again when the stream ends."""
PAUSE_SECONDS = 1.0
"""We wait this long before a stream fails, because clients open another at once."""

Context = Any


class DanubeServer:
    """Listens from the moment it is created, and answers once it is started."""

    def __init__(self, config: DanubeConfig, metrics: ConnectionMetrics) -> None:
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MOST_RECEIVED),
                *connection_options(config.max_connections),
                # The server notices that a client has vanished, so that its messages go to others.
                ("grpc.keepalive_time_ms", 10_000),
                ("grpc.keepalive_timeout_ms", 5_000),
            ]
        )
        self.port = open_port(
            self._server,
            config.host,
            config.port,
            config.tls,
            section="danube",
            port_key="danube.port",
            rival="Danube",
        )
        self._connections = Connections(self.port, config.max_connections, "danube", metrics, closes=False)
        self.url = (
            config.advertised_url or f"{'https' if config.tls.cert else 'http'}://{_reachable(config)}:{self.port}"
        )

    async def start(self, discovery: Discovery, producers: Producers, consumers: Consumers) -> None:
        async def health(request: Any) -> Any:
            known = request.client == wire.PRODUCER or await consumers.seen(request.id)
            if request.client == wire.PRODUCER:
                producers.seen(request.id)
            return wire.HealthCheckResponse(status=wire.OK if known else wire.CLOSE)

        services = {
            "Discovery": {
                "TopicLookup": _unary(wire.TopicLookupRequest, discovery.lookup),
                "TopicPartitions": _unary(wire.TopicLookupRequest, discovery.partitions),
            },
            "ProducerService": {
                "CreateProducer": _unary(wire.ProducerRequest, producers.create),
                "SendMessage": _unary(wire.StreamMessage, producers.send),
            },
            "ConsumerService": {
                "Subscribe": _unary(wire.ConsumerRequest, consumers.subscribe),
                "ReceiveMessages": _stream(wire.ReceiveRequest, consumers.receive),
                "Ack": _unary(wire.AckRequest, consumers.ack),
                "Nack": _unary(wire.NackRequest, consumers.nack),
            },
            "HealthCheck": {"HealthCheck": _unary(wire.HealthCheckRequest, health)},
        }
        self._server.add_generic_rpc_handlers([_service(name, methods) for name, methods in services.items()])
        await self._server.start()
        self._connections.start()

    async def stop(self, timeout: float) -> None:
        """Accepts no more calls, and lets running ones end."""
        self._connections.stop()
        await self._server.stop(timeout)


def _service(name: str, methods: Mapping[str, grpc.RpcMethodHandler]) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(f"danube.{name}", methods)


def _unary(kind: type[Message], answer: Callable[[Any], Awaitable[Any]]) -> grpc.RpcMethodHandler:
    async def call(body: bytes, context: Context) -> bytes:
        try:
            found: bytes = (await answer(_parsed(kind, body))).SerializeToString()
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            _fail(error, context)
            return b""
        return found

    return grpc.unary_unary_rpc_method_handler(call)


def _stream(kind: type[Message], answers: Callable[[Any], AsyncIterator[Any]]) -> grpc.RpcMethodHandler:
    async def call(body: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async for answer in answers(_parsed(kind, body)):
                yield answer.SerializeToString()
        except IdUnknown:
            await asyncio.sleep(HELD_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            await asyncio.sleep(PAUSE_SECONDS)
            _fail(error, context)

    return grpc.unary_stream_rpc_method_handler(call)


def _parsed(kind: type[Message], body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise RequestError(f"The request is no {kind.DESCRIPTOR.name}: {error}.") from error


def _fail(error: Exception, context: Context) -> None:
    failure = failure_of(error)
    context.set_code(code_of(failure.kind))
    context.set_details(details(failure.reason) or type(error).__name__)


def _reachable(config: DanubeConfig) -> str:
    """Returns the name by which others reach this machine, if it listens on all its addresses."""
    return socket.getfqdn() if config.host in ("", "0.0.0.0", "::") else config.host
