"""Serves `tail`: a connection on which lines come as they are stored.

The serving process waits for the log to grow. Then it asks a query process for what is new and passes that on, a
frame at a time and no faster than the client reads. So a slow client costs no memory: the log is its buffer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import orjson
from prometheus_client import CollectorRegistry, Gauge
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from frazil.config.model import Config
from frazil.engine.interface import QueryRequest
from frazil.errors import FrazilError, QueryError, RateExceeded, ShutdownError
from frazil.log.arrivals import Arrivals
from frazil.query.logql.api.tail.outputs import NDJSON, LinesOutput, Output, WebSocketOutput, refuse
from frazil.query.logql.api.tail.pieces import ANSWER, ONLY_LOGS, POSITIONS
from frazil.scan.tenants import HEADER, tenant_names
from frazil.web.failures import failure_of
from frazil.web.parameters import Parameters, number
from frazil.web.ports.contributions import LOKI, BareEndpoint

logger = logging.getLogger(__name__)

PATH = "/loki/api/v1/tail"
GATHER_SECONDS = 0.2
"""What comes in this time is sent together."""
WAIT_SECONDS = 5.0
MOST_SECONDS = 3600.0
"""A client is disconnected after this time. It connects again."""
MOST_DELAY_SECONDS = 5
_GOING_AWAY, _INTERNAL_ERROR = 1001, 1011
_STOPPING = "Frazil is stopping."
_TOO_LONG = "reached tail max duration limit"

Positions = Mapping[int, int]


class Room(Protocol):
    async def ask(self, answer: str, request: QueryRequest) -> RoomReply: ...


class RoomReply(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class TailEndpoint:
    """Belongs to one event loop."""

    def __init__(self, config: Config, room: Room, arrivals: Arrivals, metrics: CollectorRegistry) -> None:
        self._config = config
        self._room = room
        self._arrivals = arrivals
        self._stopping = asyncio.Event()
        self._clients: Counter[tuple[str, ...]] = Counter()
        gauge = Gauge("frazil_loki_tails", "Clients that follow lines (`tail`).", registry=metrics)
        gauge.set_function(lambda: self._clients.total())

    @property
    def contribution(self) -> BareEndpoint:
        return BareEndpoint(PATH, self, "lines as they come", ("GET", "WEBSOCKET"), LOKI, self._stopping.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        output: Output
        if scope["type"] == "websocket":
            await receive()
            output = WebSocketOutput(receive, send)
        elif NDJSON in Headers(scope=scope).get("accept", ""):
            output = LinesOutput(receive, send)
        else:
            await refuse(send, 400, "Bad Request", "http", [(b"sec-websocket-version", b"13")])
            return
        try:
            with suppress(OSError):
                await self._serve(scope, output)
        except asyncio.CancelledError:
            # The server cancels what it sends when it ends.
            if not self._stopping.is_set():
                raise

    async def _serve(self, scope: Scope, output: Output) -> None:
        try:
            asked, delay = self._asked(scope)
            self._count(asked.tenants)
        except FrazilError as error:
            failure = failure_of(error)
            await output.refuse(failure.http, failure.reason)
            return
        try:
            await _Following(self._room, self._arrivals, asked, delay, output).run(self._stopping)
        finally:
            self._clients[asked.tenants] -= 1

    def _asked(self, scope: Scope) -> tuple[QueryRequest, int]:
        headers = Headers(scope=scope)
        tenants = tenant_names(headers.getlist(HEADER), several=self._config.query.multi_tenant)
        query = scope["query_string"].decode("latin-1")
        given = Parameters.parse(query).one("delay_for")
        delay = number(given, "delay_for") if given else 0
        if delay > MOST_DELAY_SECONDS:
            raise QueryError(f"delay_for can't be greater than {MOST_DELAY_SECONDS}")
        request = QueryRequest("GET", PATH, {}, query, dict(headers.items()), b"", tenants, LOKI)
        return request, delay

    def _count(self, tenants: tuple[str, ...]) -> None:
        settings = self._config.loki.query
        most = (settings.of_tenant(tenants[0]) if len(tenants) == 1 else settings).max_tails
        count = self._clients[tenants] + 1
        if most and count > most:
            raise RateExceeded(f"max concurrent tail requests limit exceeded, count > limit ({count} > {most})")
        self._clients[tenants] = count


class _Following:
    """Serves one client."""

    def __init__(self, room: Room, arrivals: Arrivals, asked: QueryRequest, delay: float, output: Output) -> None:
        self._room = room
        self._arrivals = arrivals
        self._asked = asked
        self._delay = delay
        self._output = output
        self._positions: Positions = {}

    async def run(self, stopping: asyncio.Event) -> None:
        closing = asyncio.create_task(stopping.wait())
        try:
            frames = await self._first(closing)
            if frames is not None:
                await self._output.open()
                await self._serve(frames, closing)
        finally:
            closing.cancel()

    async def _first(self, closing: asyncio.Task[bool]) -> Sequence[bytes] | None:
        """Returns the lines that there are already, or refuses the client."""
        asking = asyncio.create_task(self._piece(b""))
        await _any_of(asking, closing)
        try:
            if not asking.done():
                raise ShutdownError(_STOPPING)
            return asking.result()
        except FrazilError as error:
            failure = failure_of(error)
            if failure.reason == ONLY_LOGS and isinstance(self._output, WebSocketOutput):
                # Loki notices this only when the connection is there.
                await self._output.open()
                await self._output.close(_INTERNAL_ERROR, failure.reason)
            else:
                await self._output.refuse(failure.http, failure.reason)
            return None
        finally:
            await _ended(asking)

    async def _serve(self, frames: Sequence[bytes], closing: asyncio.Task[bool]) -> None:
        leaving = asyncio.create_task(self._output.until_client_leaves())
        following = asyncio.create_task(self._follow(frames))
        await _any_of(leaving, following, closing)
        try:
            if following.done():
                following.result()
            elif closing.done():
                await self._output.close(_GOING_AWAY, _STOPPING)
        except FrazilError as error:
            await self._output.close(_INTERNAL_ERROR, failure_of(error).reason)
        finally:
            await _ended(leaving, following)

    async def _follow(self, frames: Sequence[bytes]) -> None:
        end = time.monotonic() + MOST_SECONDS
        while True:
            for frame in frames:
                await self._output.send(frame)
            if time.monotonic() >= end:
                await self._output.close(_INTERNAL_ERROR, _TOO_LONG)
                return
            frames = ()
            if await self._arrivals.wait(self._positions, WAIT_SECONDS):
                await asyncio.sleep(self._delay + GATHER_SECONDS)
                positions = {str(partition): offset for partition, offset in self._positions.items()}
                frames = await self._retried_piece(orjson.dumps(positions))
            else:
                await self._output.beat()

    async def _retried_piece(self, positions: bytes) -> Sequence[bytes]:
        """Tries again when there was no room for the question. Nothing is lost meanwhile, since the log has it."""
        while True:
            try:
                return await self._piece(positions)
            except FrazilError as error:
                if not error.retryable:
                    raise
                logger.debug("a tail waits", extra={"reason": str(error)})
                await asyncio.sleep(1)

    async def _piece(self, positions: bytes) -> Sequence[bytes]:
        reply = await self._room.ask(ANSWER, replace(self._asked, body=positions))
        try:
            body = b"".join([piece async for piece in reply])
        finally:
            await reply.aclose()
        found = orjson.loads(reply.headers[POSITIONS])
        self._positions = {int(partition): offset for partition, offset in found.items()}
        return body.split(b"\n") if body else ()


async def _any_of(*tasks: asyncio.Task[Any]) -> None:
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        await _ended(*tasks)
        raise


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
