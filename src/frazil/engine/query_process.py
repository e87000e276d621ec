"""Starts and controls one query process, from the side of the serving process."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence

from frazil.config.model import Config
from frazil.engine.messages import PIECE_BYTES, Ended, Kind, MessageReader, Start, packed, unpacked
from frazil.engine.tail_transfer import TailsOf, pack_views, send_views
from frazil.errors import FrazilError, QueryProcessDied

logger = logging.getLogger(__name__)

_START_SECONDS = 60.0


class Desk:
    """Is one of the places of a process at which a query is answered."""

    def __init__(self, process: QueryProcess, reader: StreamReader, writer: StreamWriter) -> None:
        self.process = process
        self.reader = MessageReader(reader)
        self.writer = writer
        self.busy = False


class QueryProcess:
    """Belongs to the event loop that started it. It calls `on_end` when the process has gone, for whatever reason."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: tuple[StreamReader, StreamWriter], tails_of: TailsOf
    ) -> None:
        self._process = process
        reader, self._writer = control
        self._reader = MessageReader(reader)
        self._tails_of = tails_of
        self._watching: asyncio.Task[None] | None = None
        self.desks: list[Desk] = []
        self.running = True
        self.exit_code: int | None = None
        self.used_at = time.monotonic()
        self.used_for: tuple[object, ...] = ()
        """Names port and tenants of the last query, whose rows the caches have."""
        self.taken = False
        """Whether a query has the process to itself."""

    @classmethod
    async def start(
        cls, config: Config, warm: Sequence[str], tails_of: TailsOf, on_end: Callable[[QueryProcess], None]
    ) -> QueryProcess:
        """Returns when the process can answer."""
        pairs = [socket.socketpair() for _ in range(1 + config.query.threads)]
        try:
            started = await asyncio.to_thread(_popen, [theirs for _, theirs in pairs])
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        control, *desks = [await asyncio.open_unix_connection(sock=ours, limit=2 * PIECE_BYTES) for ours, _ in pairs]
        process = cls(started, control, tails_of)
        process.desks = [Desk(process, *each) for each in desks]
        try:
            await process._ready(Start(config, tuple(warm)))
        except BaseException:
            await process.close()
            raise
        process._watching = asyncio.create_task(process._watch(on_end))
        return process

    @property
    def idle(self) -> bool:
        return not any(desk.busy for desk in self.desks)

    def kill(self) -> None:
        """Ends the process at once. Whoever waits for an answer of it gets an error."""
        self._process.kill()

    async def wait_gone(self) -> None:
        """Waits until a process that has closed its sockets is gone."""
        if self._watching is not None:
            await asyncio.wait([self._watching])

    async def close(self) -> None:
        """Ends the process, and returns when it is gone."""
        self.kill()
        if self._watching is not None:
            await asyncio.wait([self._watching])
        else:
            await self._gone()

    async def _ready(self, start: Start) -> None:
        self._writer.write(packed(Kind.START, start))
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._reader.receive()
        except TimeoutError:
            raise QueryProcessDied(
                f"A process for queries did not start within {_START_SECONDS:.0f} seconds."
            ) from None
        except Ended:
            code = await asyncio.to_thread(self._process.wait)
            raise QueryProcessDied(f"A process for queries ended with code {code} before it was ready.") from None

    async def _watch(self, on_end: Callable[[QueryProcess], None]) -> None:
        """Answers what the process asks, until it has gone."""
        try:
            while True:
                _, topics = await self._reader.receive()
                views = await asyncio.to_thread(lambda wanted: pack_views(self._tails_of(wanted)), unpacked(topics))
                await send_views(self._writer, views)
        except (Ended, ConnectionError):
            pass
        except Exception:
            logger.exception("a process for queries is ended, because it cannot be told the tails of topics")
        finally:
            await self._gone()
            on_end(self)

    async def _gone(self) -> None:
        self._process.kill()
        self.running = False
        self.exit_code = await asyncio.to_thread(self._process.wait)
        for writer in (self._writer, *(desk.writer for desk in self.desks)):
            writer.close()


def _popen(sockets: list[socket.socket]) -> subprocess.Popen[bytes]:
    descriptors = [each.fileno() for each in sockets]
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "frazil.engine.child", *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=descriptors,
            # A Ctrl-C in the terminal goes to the parent, which then ends its children in order.
            start_new_session=True,
        )
    except OSError as error:
        raise FrazilError(f"A process for queries could not be started: {error}") from error
