"""Routes `POST` requests to endpoints by path, and all others to another ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.doors.telemetry.http import Exchange, HttpAnswer
from frazil.web.asgi import AsgiBody

Handler = Callable[[Exchange], Awaitable[None]]
"""Handles the requests to one path."""


class EndpointRouter:
    def __init__(self, endpoints: Mapping[str, Handler], others: ASGIApp) -> None:
        self._endpoints = endpoints
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"])
        if endpoint is None or scope.get("method") != "POST":
            await self._others(scope, receive, send)
        else:
            await endpoint(_AsgiExchange(scope, receive, send))


class _AsgiExchange(AsgiBody):
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive)
        self._send = send

    async def answer(self, answer: HttpAnswer) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.fields()]
        if answer.status != 204:
            headers.append((b"content-length", b"%d" % len(answer.body)))
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": answer.body})
