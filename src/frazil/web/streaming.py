"""Sends answers while they are made, as fast as the client reads, and only as long as there is a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from frazil.errors import RequestCancelled
from frazil.web.compression import MOST_PLAIN_BYTES, Encoder, encoder, encoding_for

THREAD_BYTES = 32 * 1024
"""To compress this much takes longer than to hand it to a thread."""

T = TypeVar("T")


class Reply(Protocol):
    """Is an answer whose body comes piece by piece, each when it is asked for."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Stops making it. This is called in the end in any case."""


class Client:
    """Notices when the client of a request has gone. It is made when the body of the request was read."""

    def __init__(self, receive: Receive) -> None:
        self._leaving = asyncio.create_task(_leaving(receive))

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns what the work returns. Cancels it and raises `RequestCancelled` when the client goes."""
        working = asyncio.create_task(work)
        try:
            await asyncio.wait({working, self._leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise RequestCancelled("The client has gone.")
            return working.result()
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await working

    def close(self) -> None:
        self._leaving.cancel()


async def _leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


class StreamedAnswer(Response):
    """Sends a reply, compressed if the client takes that. Nothing is sent before its first piece has come, so that an
    error until then has an answer of its own. It closes the reply and the client in the end."""

    def __init__(self, reply: Reply, client: Client, accepted_encodings: str) -> None:
        super().__init__(status_code=reply.status, headers=dict(reply.headers))
        del self.headers["content-length"]
        self._reply = reply
        self._client = client
        self._encoding = None if "content-encoding" in self.headers else encoding_for(accepted_encodings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._client.unless_gone(self._send(send))
        finally:
            self._client.close()
            await self._reply.aclose()

    async def _send(self, send: Send) -> None:
        pieces = aiter(self._reply)
        # Two pieces tell whether the answer is small, and whether it has come as a whole.
        first = [piece async for piece in _first(pieces, 2)]
        whole = len(first) < 2
        size = sum(map(len, first))
        headers = MutableHeaders(raw=self.raw_headers)
        headers.add_vary_header("accept-encoding")
        packing: Encoder | None = None
        if self._encoding is not None and not (whole and size <= MOST_PLAIN_BYTES):
            headers["content-encoding"] = self._encoding
            packing = encoder(self._encoding)
        elif whole:
            headers["content-length"] = str(size)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while first:
            await _body(send, await _packed(packing, first.pop(0)))
        async for piece in pieces:
            await _body(send, await _packed(packing, piece))
            # To a client that has gone, the server sends without waiting, so nobody would notice that it has.
            await asyncio.sleep(0)
        await _body(send, b"" if packing is None else packing.end(), last=True)


async def _first(pieces: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        try:
            yield await anext(pieces)
        except StopAsyncIteration:
            return


async def _packed(packing: Encoder | None, piece: bytes) -> bytes:
    if packing is None:
        return piece
    return packing.add(piece) if len(piece) < THREAD_BYTES else await asyncio.to_thread(packing.add, piece)


async def _body(send: Send, piece: bytes, *, last: bool = False) -> None:
    if piece or last:
        await send({"type": "http.response.body", "body": piece, "more_body": not last})
