"""Sends frames of lines to a client: over a WebSocket, as Loki does, or as lines of JSON over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from starlette.types import Receive, Send

NDJSON = "application/x-ndjson"
_MOST_REASON_BYTES = 123
"""The protocol of WebSockets allows no more."""


class Output(Protocol):
    async def refuse(self, status: int, reason: str) -> None:
        """Answers with plain text in place of lines."""

    async def open(self) -> None: ...

    async def send(self, frame: bytes) -> None: ...

    async def beat(self) -> None:
        """Is called when nothing came for a while."""

    async def close(self, code: int, reason: str) -> None: ...

    async def until_client_leaves(self) -> None: ...


class WebSocketOutput:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def refuse(self, status: int, reason: str) -> None:
        await refuse(self._send, status, reason, "websocket.http")

    async def open(self) -> None:
        await self._send({"type": "websocket.accept"})

    async def send(self, frame: bytes) -> None:
        await self._send({"type": "websocket.send", "text": frame.decode()})

    async def beat(self) -> None:
        pass

    async def close(self, code: int, reason: str) -> None:
        shown = reason.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
        await self._send({"type": "websocket.close", "code": code, "reason": shown})

    async def until_client_leaves(self) -> None:
        while (await self._receive())["type"] != "websocket.disconnect":
            continue


class LinesOutput:
    """An empty line says that the server is still there."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def refuse(self, status: int, reason: str) -> None:
        await refuse(self._send, status, reason, "http")

    async def open(self) -> None:
        headers = [(b"content-type", NDJSON.encode())]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.beat()

    async def send(self, frame: bytes) -> None:
        await self._send({"type": "http.response.body", "body": frame + b"\n", "more_body": True})

    async def beat(self) -> None:
        await self._send({"type": "http.response.body", "body": b"\n", "more_body": True})

    async def close(self, code: int, reason: str) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def until_client_leaves(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue


async def refuse(
    send: Send, status: int, reason: str, prefix: str, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    body = reason.encode()
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": f"{prefix}.response.start", "status": status, "headers": fields})
    await send({"type": f"{prefix}.response.body", "body": body})
