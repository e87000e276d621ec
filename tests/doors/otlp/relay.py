"""Runs a proxy to the server on which clients fall silent in the middle of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_PART = 1 << 16
_DRIP_SECONDS = 0.02


class Relay:
    """Forwards all answers, but only the beginning of what each connection sends."""

    def __init__(self, port: int, most: int, drips: bool) -> None:
        self._server_port = port
        self._most = most
        self._drips = drips
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        ends = {writer, to_server}
        self._open |= ends
        sending = asyncio.create_task(self._send(reader, to_server))
        try:
            while part := await from_server.read(_PART):
                writer.write(part)
        except ConnectionError:
            return
        finally:
            sending.cancel()
            self._open -= ends
            for end in ends:
                end.close()

    async def _send(self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        left = self._most
        while part := await reader.read(_PART if left > 0 else 1):
            to_server.write(part)
            await to_server.drain()
            left -= len(part)
            if left <= 0:
                await asyncio.sleep(_DRIP_SECONDS if self._drips else 3600)
        to_server.close()

    def cut(self) -> None:
        """Drops the connections as if the machine in between had died."""
        for end in self._open:
            end.transport.abort()


@asynccontextmanager
async def silent_after(most: int, port: int, drips: bool = False) -> AsyncIterator[int]:
    """Yields the port of a relay to `port`. With `drips`, it sends a byte now and then after the beginning."""
    relay = Relay(port, most, drips)
    async with await asyncio.start_server(relay.serve, "127.0.0.1", 0) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            relay.cut()
