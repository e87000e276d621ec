"""Reads headers and bodies of ASGI requests."""

from __future__ import annotations

from starlette.types import Receive, Scope

from frazil.web.bodies import BodyIncomplete, announced, check_there


class AsgiBody:
    def __init__(self, scope: Scope, receive: Receive) -> None:
        # If a header comes twice, the first one counts.
        self._headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        self._scope = scope
        self._receive = receive
        self.length = announced(self.header("content-length"))
        self._come = 0
        self._more = True

    def header(self, name: str) -> str | None:
        """Returns the first header of this name, which is in lower case."""
        value = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def all(self, name: str) -> tuple[str, ...]:
        """Returns the values of all headers of this name, which is in lower case."""
        wanted = name.encode()
        return tuple(value.decode("latin-1") for given, value in self._scope["headers"] if given == wanted)

    async def part(self) -> bytes | None:
        if self._come == self.length or not self._more:
            return None
        message = await self._receive()
        if message["type"] != "http.request":
            raise BodyIncomplete
        part: bytes = message.get("body", b"")
        self._come += len(part)
        if not message.get("more_body", False):
            self._more = False
            await self._check_end()
        return part

    async def _check_end(self) -> None:
        if self.length is None:
            if self._scope["http_version"] == "2":
                await check_there(self._receive())
        elif self._come != self.length:
            raise BodyIncomplete
