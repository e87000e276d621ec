"""Serves `tempopb.StreamingQuerier` over gRPC. The answers are made where other queries are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

import grpc

from frazil.engine.interface import QueryRequest
from frazil.query.traceql.api.streaming import ANSWER, METHODS, SERVICE
from frazil.web.failures import failure_of
from frazil.web.grpc.codes import code_of
from frazil.web.grpc.error_details import details

PORT = "tempo"
TENANT = "x-scope-orgid"
_HEADER_BYTES = 5

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
}


class StreamedReply(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Room(Protocol):
    """Has queries answered, in other processes."""

    async def ask(self, answer: str, request: QueryRequest) -> StreamedReply: ...


class StreamingService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Add it to a server of `grpc.aio`.

    `tenants_of` says whose rows the values of the tenant's header let see.
    """

    def __init__(self, room: Room, tenants_of: Callable[[Sequence[str]], tuple[str, ...]]) -> None:
        self._room = room
        self._tenants_of = tenants_of

    def service(self, handler_call_details: Any) -> Any:
        path: str = handler_call_details.method
        service, _, method = path.strip("/").partition("/")
        if service != SERVICE or method not in METHODS:
            return None

        async def call(body: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                async for message in self._answer(path, body, context):
                    yield message
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                failure = failure_of(error)
                await context.abort(code_of(failure.kind), details(failure.reason))

        # Messages are passed on as bytes.
        return grpc.unary_stream_rpc_method_handler(call)

    async def _answer(self, path: str, body: bytes, context: Any) -> AsyncIterator[bytes]:
        metadata = [(key, value) for key, value in context.invocation_metadata() or () if isinstance(value, str)]
        tenants = self._tenants_of([value for key, value in metadata if key == TENANT])
        asked = QueryRequest("POST", path, {}, "", dict(metadata), body, tenants, PORT)
        reply = await self._room.ask(ANSWER, asked)
        try:
            if reply.status != 200:
                text = b"".join([piece async for piece in reply]).decode("utf-8", "replace")
                code = _CODES.get(reply.status, grpc.StatusCode.INTERNAL)
                await context.abort(code, details(text))
            waiting = bytearray()
            async for piece in reply:
                waiting += piece
                while (message := _taken(waiting)) is not None:
                    yield message
        finally:
            await reply.aclose()


def _taken(waiting: bytearray) -> bytes | None:
    """Takes a whole message from the front of the bytes; None if there is none yet."""
    if len(waiting) < _HEADER_BYTES:
        return None
    end = _HEADER_BYTES + int.from_bytes(waiting[1:_HEADER_BYTES], "big")
    if len(waiting) < end:
        return None
    message = bytes(waiting[_HEADER_BYTES:end])
    del waiting[:end]
    return message
