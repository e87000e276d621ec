"""Starts the parts of a process in order, waits for a signal, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from frazil.errors import FrazilError, Interrupted, ShutdownError
from frazil.ops.health import Components, Health, HealthRegistry
from frazil.web.server import HttpServer

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

# A part may still take this long to stop after an earlier one has used up the time of a clean stop.
_LAST_CHANCE_SECONDS = 1.0


class Part(Protocol):
    """A part of the process, which runs as long as the process does."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None:
        """Return when the part works; raise a `FrazilError` when it cannot."""

    async def stop(self) -> None:
        """Finish what was promised, then release everything. It is called only after a start that succeeded."""

    def health(self) -> Health | Components: ...


class Service:
    """Runs parts, and an HTTP server that reports their health from before the first starts until after the last has
    stopped.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        server: HttpServer,
        health: HealthRegistry,
        shutdown_timeout_seconds: float,
        optional: Collection[str] = (),
    ) -> None:
        """`optional` names the parts that the others work without: readiness does not depend on them."""
        self._parts = parts
        self._optional = optional
        self._server = server
        self._health = health
        self._shutdown_timeout = shutdown_timeout_seconds
        self._started: list[Part] = []
        self._ended = asyncio.Event()
        self._signal: signal.Signals | None = None

    async def run(self, on_ready: Callable[[], None]) -> signal.Signals | None:
        """Run until a signal arrives, and return it, or until `finish` is called. It must run in the main thread."""
        self._watch_signals()
        await self._server.start()
        try:
            await self._until_ended(on_ready)
        except BaseException:
            for failure in await self._stop():
                logger.error("%s", failure)
            raise
        failures = await self._stop()
        for failure in failures[1:]:
            logger.error("%s", failure)
        if failures:
            raise failures[0]
        return self._signal

    def finish(self) -> None:
        """End the service in good order without a signal."""
        self._ended.set()

    async def _until_ended(self, on_ready: Callable[[], None]) -> None:
        starting = asyncio.create_task(self._start(on_ready))
        server = asyncio.create_task(self._server.wait())
        ended = asyncio.create_task(self._ended.wait())
        tasks = {starting, server, ended}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await asyncio.wait({server, ended}, return_when=asyncio.FIRST_COMPLETED)
            if server.done():
                raise FrazilError(f"the HTTP server on {self._server.url} ended unexpectedly") from server.exception()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, on_ready: Callable[[], None]) -> None:
        for part in self._parts:
            self._health.set(part.name, "degraded", "starting")
            await part.start()
            self._started.append(part)
            self._health.register(part.name, part.health, optional=part.name in self._optional)
            logger.info("started", extra={"part": part.name})
        self._health.mark_ready()
        on_ready()

    async def _stop(self) -> list[FrazilError]:
        """Stop everything in the time that is left, and return what went wrong."""
        self._health.mark_draining()
        deadline = time.monotonic() + self._shutdown_timeout
        failures: list[FrazilError] = []
        for part in reversed(self._started):
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), _LAST_CHANCE_SECONDS)):
                    await part.stop()
                logger.info("stopped", extra={"part": part.name})
            except TimeoutError:
                failures.append(ShutdownError(f"{part.name} did not stop within {self._shutdown_timeout:g} seconds"))
            except FrazilError as error:
                failures.append(error)
            except Exception as error:  # noqa: BLE001 - the parts before it must stop too
                failures.append(ShutdownError(f"{part.name} could not stop: {type(error).__name__}: {error}"))
        await self._server.stop(max(deadline - time.monotonic(), _LAST_CHANCE_SECONDS))
        return failures

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        self._signal = number
        self._ended.set()
        logger.info("stopping; a second signal ends at once", extra={"signal": number.name})
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
        _exit_on_next_signal()


def _exit_on_next_signal() -> None:
    """End the process at the next signal, whatever the main thread is doing.

    A Python handler would wait for the main thread, which may be stuck in a call. The wakeup descriptor is written by
    the system's handler itself, in whichever thread the signal arrives.
    """
    wait, wake = socket.socketpair()
    wake.setblocking(False)
    for each in _SIGNALS:
        signal.signal(each, lambda *_: None)
    signal.set_wakeup_fd(wake.detach(), warn_on_full_buffer=False)

    def watch() -> None:
        with wait:
            while wait.recv(1)[0] not in _SIGNALS:
                continue
        os._exit(Interrupted.exit_code)

    threading.Thread(target=watch, name="second signal", daemon=True).start()
