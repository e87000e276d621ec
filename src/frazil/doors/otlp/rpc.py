"""Serves OTLP over gRPC: the three Export services, with health and reflection."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from frazil.config.sections.otlp import OtlpConfig
from frazil.doors.otlp.answers import encoded, response, status
from frazil.doors.otlp.signals import Signal
from frazil.doors.telemetry.conversion import TelemetryRequest
from frazil.doors.telemetry.intake import Intake
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.refusals import refusal
from frazil.errors import FrazilError, RequestError
from frazil.scan.tenants import HEADER, tenant_name
from frazil.web.admission import Admission
from frazil.web.connections import ConnectionMetrics, Connections
from frazil.web.failures import UNAVAILABLE
from frazil.web.grpc.codes import code_of
from frazil.web.grpc.error_details import details
from frazil.web.grpc.incoming_messages import OPTIONS, IncomingMessages
from frazil.web.grpc.port import connection_options, open_port

logger = logging.getLogger(__name__)

PROTOCOL = "otlp-grpc"
STATUS = "grpc-status-details-bin"

Context = Any
Export = Callable[[object, Context], Awaitable[bytes]]


class OtlpGrpc:
    def __init__(
        self,
        config: OtlpConfig,
        intakes: Mapping[Signal, Intake],
        admission: Admission,
        metrics: TelemetryMetrics,
        connections: ConnectionMetrics,
        most: int,
    ) -> None:
        """`most` is the largest message in bytes."""
        self._admission = admission
        self._metrics = metrics
        self._health = health.aio.HealthServicer()
        self._services = [signal.service for signal in intakes]
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", most),
                *connection_options(config.grpc.max_connections),
                *OPTIONS,
            ],
            compression=grpc.Compression.NoCompression,
        )
        self._server.add_generic_rpc_handlers([self._handler(*each) for each in intakes.items()])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            [*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server
        )
        self.port = open_port(
            self._server,
            config.grpc.host,
            config.grpc.port,
            config.tls,
            section="otlp",
            port_key="otlp.grpc.port",
            rival="a collector",
        )
        self._arrivals = IncomingMessages(self.port, admission)
        self._connections = Connections(
            self.port, config.grpc.max_connections, "otlp.grpc", connections, closes=False
        )

    async def start(self) -> None:
        await self._server.start()
        self._connections.start()
        for service in ("", *self._services):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, timeout: float) -> None:
        """Accepts nothing more, and lets running calls end."""
        self._connections.stop()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(timeout)

    def _handler(self, signal: Signal, intake: Intake) -> grpc.GenericRpcHandler:
        # On the wire this is the same as a unary call. But gRPC would read the message of a unary call before anybody
        # could refuse it.
        method = grpc.stream_unary_rpc_method_handler(self._export(signal, intake))
        return grpc.method_handlers_generic_handler(signal.service, {"Export": method})

    def _export(self, signal: Signal, intake: Intake) -> Export:
        topic = intake.kind.topic
        seconds = self._metrics.seconds.labels(topic, PROTOCOL)

        async def export(_: object, context: Context) -> bytes:
            started = time.monotonic()
            code = grpc.StatusCode.CANCELLED
            ticket = self._admission.ticket()
            try:
                tenant = tenant_name(_tenants(context))
                ticket.expect(1)
                body = await self._arrivals.read(context)
                if body is grpc.aio.EOF:
                    raise RequestError("The call has no message.")
                ticket.add(len(body))
                accepted = await intake.take(TelemetryRequest(tenant, body))
                code = grpc.StatusCode.OK
                return encoded(response(signal, accepted), as_json=False)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                code = await self._refuse(error, context)
            finally:
                ticket.give_back()
                self._metrics.requests.labels(topic, PROTOCOL, code.name).inc()
                seconds.observe(time.monotonic() - started)
            return b""

        return export

    async def _refuse(self, error: Exception, context: Context) -> grpc.StatusCode:
        found = refusal(error)
        found = replace(found, reason=details(found.reason))
        code = code_of(found.kind)
        if not isinstance(error, FrazilError):
            logger.error("a request failed", exc_info=error)
        if found.kind is UNAVAILABLE:
            self._metrics.errors.count(error)
        context.set_trailing_metadata([(STATUS, encoded(status(found), as_json=False))])
        context.set_code(code)
        context.set_details(found.reason)
        return code


def _tenants(context: Context) -> list[str]:
    given: Iterable[tuple[str, str]] = context.invocation_metadata() or ()
    return [value for name, value in given if name == HEADER]
