from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest

from frazil.app.service import Service
from frazil.errors import FrazilError, LogCorrupted, ShutdownError
from frazil.ops.health import HEALTHY, Health, HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer
from tests.ops.support import run


@dataclass
class Recorder:
    """A part that records what happens to it."""

    name: str
    events: list[str]
    start_error: Exception | None = None
    stop_error: Exception | None = None
    blocked: asyncio.Event = field(default_factory=asyncio.Event)
    hold_start: bool = False
    hold_stop: bool = False

    async def start(self) -> None:
        self.events.append(f"start {self.name}")
        if self.start_error:
            raise self.start_error
        if self.hold_start:
            self.blocked.set()
            await asyncio.Event().wait()

    async def stop(self) -> None:
        self.events.append(f"stop {self.name}")
        if self.stop_error:
            raise self.stop_error
        if self.hold_stop:
            self.blocked.set()
            await asyncio.Event().wait()

    def health(self) -> Health:
        return HEALTHY


class Running:
    def __init__(self, *parts: Recorder, shutdown_timeout_seconds: float = 30) -> None:
        self.health = HealthRegistry()
        self.server = HttpServer(create_app(self.health, create_registry()), "127.0.0.1", 0)
        self.service = Service(parts, self.server, self.health, shutdown_timeout_seconds)
        self.ready = asyncio.Event()
        self.task = asyncio.create_task(self.service.run(self.ready.set))

    async def ask(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.get(self.server.url + path)


def test_parts_start_in_order_and_stop_in_reverse() -> None:
    async def scenario() -> None:
        events: list[str] = []
        running = Running(Recorder("a", events), Recorder("b", events))
        await running.ready.wait()
        assert (await running.ask("/readyz")).status_code == 200
        assert list((await running.ask("/health")).json()["components"]) == ["a", "b"]
        running.service.finish()
        assert await running.task is None
        assert events == ["start a", "start b", "stop b", "stop a"]

    run(scenario())


@pytest.fixture
def restored_signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_parts_and_is_returned(number: signal.Signals) -> None:
    async def scenario() -> None:
        events: list[str] = []
        running = Running(Recorder("a", events))
        await running.ready.wait()
        os.kill(os.getpid(), number)
        assert await running.task is number
        assert events == ["start a", "stop a"]

    run(scenario())


def test_a_part_that_cannot_start_stops_those_before_it() -> None:
    async def scenario() -> None:
        events: list[str] = []
        broken = Recorder("b", events, start_error=LogCorrupted("bad frame"))
        running = Running(Recorder("a", events, stop_error=OSError("too")), broken, Recorder("c", events))
        with pytest.raises(LogCorrupted, match="bad frame"):
            await running.task
        assert events == ["start a", "start b", "stop a"]
        assert not running.ready.is_set()

    run(scenario())


def test_it_answers_but_is_not_ready_while_a_part_starts_and_can_be_ended_then() -> None:
    async def scenario() -> None:
        events: list[str] = []
        slow = Recorder("b", events, hold_start=True)
        running = Running(Recorder("a", events), slow)
        await slow.blocked.wait()
        answer = await running.ask("/readyz")
        assert (answer.status_code, answer.text) == (503, "starting\n")
        assert (await running.ask("/healthz")).status_code == 200
        assert (await running.ask("/health")).json()["components"]["b"] == {
            "status": "degraded",
            "reason": "starting",
        }
        running.service.finish()
        assert await running.task is None
        assert events == ["start a", "start b", "stop a"]

    run(scenario())


def test_it_answers_but_is_not_ready_while_it_drains() -> None:
    async def scenario() -> None:
        events: list[str] = []
        slow = Recorder("b", events, hold_stop=True)
        running = Running(Recorder("a", events), slow, shutdown_timeout_seconds=2)
        await running.ready.wait()
        running.service.finish()
        await slow.blocked.wait()
        answer = await running.ask("/readyz")
        assert (answer.status_code, answer.text) == (503, "draining\n")
        with pytest.raises(ShutdownError, match="b did not stop within 2 seconds"):
            await running.task
        assert events == ["start a", "start b", "stop b", "stop a"]

    run(scenario())


def test_a_part_that_fails_to_stop_does_not_keep_others_from_it() -> None:
    async def scenario() -> None:
        events: list[str] = []
        running = Running(Recorder("a", events), Recorder("b", events, stop_error=ValueError("odd")))
        await running.ready.wait()
        running.service.finish()
        with pytest.raises(FrazilError, match="b could not stop: ValueError: odd"):
            await running.task
        assert events[-1] == "stop a"

    run(scenario())


STUCK = """
import asyncio, signal, time
from frazil.ops.health import HEALTHY, HealthRegistry
from frazil.web.ports.operations import create_app
from frazil.ops.metrics import create_registry
from frazil.web.server import HttpServer
from frazil.app.service import Service

class Stuck:
    name = "stuck"
    async def start(self): pass
    async def stop(self):
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.raise_signal(signal.SIGUSR1)
        print("stopping", flush=True)
        time.sleep(1000)
    def health(self): return HEALTHY

async def main():
    health = HealthRegistry()
    server = HttpServer(create_app(health, create_registry()), "127.0.0.1", 0)
    await Service([Stuck()], server, health, 30).run(lambda: print("ready", flush=True))

asyncio.run(main())
"""


def test_a_second_signal_ends_at_once_even_when_the_loop_is_stuck() -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    finally:
        process.kill()
        process.communicate()
