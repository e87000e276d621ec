"""Measures topics: acknowledgements in process and over Danube's protocol, and subscribers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.servers.child import free_ports

from bench import danube_load
from bench.bare_http_server import HOST
from bench.danube_load import in_own_process
from bench.figures import AtLeast, Below, Bench, Figure, Latencies, Round, figure
from bench.frazil_process import Frazil, wait
from bench.http_load import is_open
from bench.settings import NO_TELEMETRY
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.danube import DanubeConfig
from frazil.log.log import Log
from frazil.topics.messages import Message
from frazil.topics.storage import TopicStorage

TOPIC = "/default/bench"
PAYLOAD = bytes(1024)
PRODUCERS = 16
FAN_OUT = (1, 10, 100)
BARE = "a bare gRPC server that answers with what it got"


@contextmanager
def open_door(bench: Bench) -> Iterator[int]:
    """Runs Frazil with default settings but for the ports, and yields Danube's port."""
    (port,) = free_ports(1)
    doors = {**NO_TELEMETRY, "danube": DanubeConfig(port=port)}
    config = Config(data_dir=bench.folder / f"data-{uuid.uuid4().hex}", server=ServerConfig(port=0), **doors)
    with Frazil("ingest", config, bench.folder) as frazil, frazil.connect():
        danube_load.create(port, TOPIC)
        yield port


@contextmanager
def _echo() -> Iterator[int]:
    (port,) = free_ports(1)
    with subprocess.Popen([sys.executable, "-m", "bench.grpc_echo", str(port)]) as process:
        try:
            wait(process, lambda: is_open((HOST, port)), 0.05)
            yield port
        finally:
            process.kill()


def acknowledged(bench: Bench) -> Iterator[Figure]:
    """Sends messages of 1 KiB over gRPC, `sync: periodic`: one after the other, and from many producers."""
    body = danube_load.message(TOPIC, PAYLOAD)
    count = 1000 if bench.quick else 5000
    with open_door(bench) as port, _echo() as bare:
        for callers in (1, PRODUCERS):
            name = f"messages over gRPC, {callers} producer{'s' if callers > 1 else ''}"
            rounds = list(
                bench.alternate(
                    name,
                    partial(in_own_process, danube_load.echo, bare, body, count, callers),
                    partial(in_own_process, danube_load.send, port, body, count, callers),
                    rounds=2 if bench.quick else 5,
                )
            )
            if callers == 1:
                for which, most in (("p50", 1 / 1.5), ("p99", 1 / 3)):
                    times = [
                        Round(
                            getattr(ours.latencies, which),
                            (getattr(before.latencies, which) + getattr(after.latencies, which)) / 2,
                        )
                        for before, ours, after in rounds
                    ]
                    yield figure(f"{name}: acknowledged, {which}", "ms", times, BARE, AtLeast(most))
            speeds = [
                Round(ours.per_second, (before.per_second + after.per_second) / 2) for before, ours, after in rounds
            ]
            yield figure(name, "messages/s", speeds, BARE)


def in_process(bench: Bench) -> Iterator[Figure]:
    """Calls `TopicStorage.store` with one message of 1 KiB at a time, with `sync: periodic`."""
    count = 2000 if bench.quick else 20_000

    async def measure() -> Latencies:
        config = Config(data_dir=bench.folder / "in-process", **NO_TELEMETRY)
        with Log(config) as log:
            storage = TopicStorage(log)
            await storage.initialize_topic(TOPIC)
            times = []
            for _ in range(count):
                started = time.perf_counter()
                await storage.store(TOPIC, [Message(PAYLOAD)])
                times.append(time.perf_counter() - started)
            await storage.shutdown()
        return Latencies.of(times)

    bench.say("messages stored in process")
    found = asyncio.run(measure())
    yield Figure("message stored in process, p50", "ms", found.p50)
    yield Figure("message stored in process, p99", "ms", found.p99, target=Below(1.0, "ms"))


def fan_out(bench: Bench) -> Iterator[Figure]:
    """Runs one producer, and subscriptions that receive and acknowledge each of its messages."""
    for subscribers in FAN_OUT:
        bench.say(f"{subscribers} subscribers")
        count = (200 if bench.quick else 2000) // (subscribers if subscribers < 100 else 20)
        with open_door(bench) as port:
            names = [f"s{number}" for number in range(subscribers)]
            consumers = [danube_load.subscribe(port, TOPIC, name) for name in names]
            load = in_own_process(danube_load.fan_out, port, TOPIC, consumers, names, count)
        yield Figure(
            f"messages to {subscribers} subscriber{'s' if subscribers > 1 else ''}", "messages/s", load.per_second
        )


def end_to_end(bench: Bench) -> Iterator[Figure]:
    """Measures the time from producing a message until a subscriber has it, at 100 messages a second."""
    bench.say("from producer to subscriber")
    with open_door(bench) as port:
        consumer = danube_load.subscribe(port, TOPIC, "s")
        count = 200 if bench.quick else 2000
        load = in_own_process(danube_load.fan_out, port, TOPIC, [consumer], ["s"], count, 0.01)
    yield Figure("from producer to subscriber, p50", "ms", load.latencies.p50)
    yield Figure("from producer to subscriber, p99", "ms", load.latencies.p99)
