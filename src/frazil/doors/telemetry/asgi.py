"""Lets a telemetry endpoint answer as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.doors.telemetry.http import Exchange, HttpAnswer
from frazil.web.asgi import AsgiBody

Handler = Callable[[Exchange], Awaitable[None]]
"""Handles the requests to one path."""


def asgi(handler: Handler) -> ASGIApp:
    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return handler(_AsgiExchange(scope, receive, send))

    return app


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
