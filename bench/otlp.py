"""Measures the OTLP door over HTTP: requests until they are acknowledged, and records until they are in the table.

The limits are the bare decoding of the same bytes into columns, and a bare server that drops them.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from tests.servers.child import free_ports

from bench import otlp_messages, process_usage
from bench.bare_http_server import HOST
from bench.figures import AtLeast, Below, Bench, Figure, Round, figure
from bench.frazil_process import Frazil, committed, wait
from bench.http_load import Load, is_open, send
from bench.kafka import await_quiet, cpu_by_part
from bench.otlp_messages import Make, bodies
from bench.settings import NO_TELEMETRY
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.endpoint import EndpointConfig
from frazil.config.sections.otlp import OtlpConfig
from frazil.doors.otlp.signals import LOGS, METRICS, SPANS, Signal
from frazil.formats.telemetry.descriptors import handler_of
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier

CLIENTS, MANY_CLIENTS = 8, 64
TABLE_CLIENTS = 4
"""Others were measured with this many clients."""
BARE = "ptars alone, the same bytes"
BARE_SERVER = "a server that drops bodies"


class RequestSource(NamedTuple):
    name: str
    signal: Signal
    make: Callable[[], Make]


REQUEST_SOURCES = (
    RequestSource("log records", LOGS, otlp_messages.logs),
    RequestSource("spans", SPANS, otlp_messages.spans),
    RequestSource("data points", METRICS, otlp_messages.points),
)


class OpenDoor(NamedTuple):
    frazil: Frazil
    config: Config
    address: tuple[str, int]


@contextmanager
def open_door(command: str, bench: Bench) -> Iterator[OpenDoor]:
    """Runs Frazil with the default settings, but for the ports."""
    http, grpc = free_ports(2)
    data = bench.folder / f"data-{uuid.uuid4().hex}"
    doors = {**NO_TELEMETRY, "otlp": OtlpConfig(http=EndpointConfig(port=http), grpc=EndpointConfig(port=grpc))}
    config = Config(data_dir=data, server=ServerConfig(port=0), **doors)
    with Frazil(command, config, bench.folder) as frazil, frazil.connect():
        yield OpenDoor(frazil, config, (HOST, http))
    shutil.rmtree(data)


# --- to the log ------------------------------------------------------------------------------------------------


def to_log(bench: Bench) -> Iterator[Figure]:
    """Sends requests of 1,000 records until they are acknowledged, while older ones are sealed."""
    requests = 300 if bench.quick else 1000
    for kind in REQUEST_SOURCES:
        name = f"{kind.name} over HTTP, requests of 1,000, {CLIENTS} clients"
        make = kind.make()
        with open_door("ingest", bench) as door:
            send(door.address, kind.signal.path, bodies(make, 20, 1000), CLIENTS)
            sample = list(bodies(make, 100, 1000))
            rounds = 1 if bench.quick else 3
            speeds, loads = [], []
            before = _decoded(kind.signal, sample)
            for number in range(rounds):
                bench.say(f"{name}: round {number + 1} of {rounds}")
                loads.append(send(door.address, kind.signal.path, bodies(make, requests, 1000), CLIENTS))
                after = _decoded(kind.signal, sample)
                speeds.append(Round(loads[-1].per_second * 1000, (before + after) / 2))
                before = after
        yield figure(name, "records/s", speeds, BARE, AtLeast(0.35))
        yield from _latencies(name, loads)


def _decoded(signal: Signal, sample: list[bytes]) -> float:
    """Returns the records that are decoded in a second, each message with all that is in it."""
    handler = handler_of(signal.requests.message.DESCRIPTOR, frozenset())
    started = time.perf_counter()
    for body in sample:
        handler.array_to_record_batch(pa.array([body], pa.binary()))
    return len(sample) * 1000 / (time.perf_counter() - started)


def _latencies(name: str, loads: list[Load]) -> Iterator[Figure]:
    yield Figure(f"{name}: acknowledged, p50", "ms", statistics.median(load.latencies.p50 for load in loads))
    yield Figure(f"{name}: acknowledged, p99", "ms", statistics.median(load.latencies.p99 for load in loads))


# --- small requests --------------------------------------------------------------------------------------------


def small(bench: Bench) -> Iterator[Figure]:
    """Sends requests of 10 log records, from few clients, from many, and from very many."""
    requests = 3000 if bench.quick else 20_000
    make = otlp_messages.logs()
    (port,) = free_ports(1)
    with open_door("ingest", bench) as door, _bare_server(port):
        send(door.address, LOGS.path, bodies(make, 200, 10), CLIENTS)
        sample = list(bodies(make, requests, 10))

        def bare(clients: int) -> Load:
            return send((HOST, port), LOGS.path, sample, clients)

        def ours(clients: int) -> Load:
            return send(door.address, LOGS.path, bodies(make, requests, 10), clients)

        for clients in (CLIENTS, MANY_CLIENTS, 4 * MANY_CLIENTS):
            name = f"requests of 10 log records, {clients} clients"
            rounds = list(
                bench.alternate(name, partial(bare, clients), partial(ours, clients), rounds=1 if bench.quick else 3)
            )
            speeds = [Round(b.per_second, (a.per_second + c.per_second) / 2) for a, b, c in rounds]
            yield figure(name, "requests/s", speeds, BARE_SERVER, AtLeast(0.5))
            yield from _latencies(name, [load for _, load, _ in rounds])


@contextmanager
def _bare_server(port: int) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-m", "bench.bare_http_server", str(port)]) as process:
        try:
            wait(process, lambda: is_open((HOST, port)), 0.05)
            yield
        finally:
            process.kill()


# --- requests of all sizes -------------------------------------------------------------------------------------


def sizes(bench: Bench) -> Iterator[Figure]:
    """Sends scraped points in requests of about 5, 20, 60 and 200 KB.

    It compares the processor time of the door with that of the bare decoder.
    """
    rounds = 1 if bench.quick else 3
    for hosts in (1, 4, 11, 38):
        points = hosts * otlp_messages.HOST_POINTS
        requests = (100_000 if bench.quick else 600_000) // points
        make = otlp_messages.scrapes(hosts)
        sample = list(bodies(make, 40, points))
        name = f"scraped points, requests of {len(sample[0]) / 1000:.0f} KB, {TABLE_CLIENTS} clients"
        with open_door("ingest", bench) as door:
            send(door.address, METRICS.path, sample, TABLE_CLIENTS)
            measured = []
            for number in range(rounds):
                bench.say(f"{name}: round {number + 1} of {rounds}")
                sent = list(bodies(make, requests, points))
                before = process_usage.cpu_seconds(door.frazil.pid)
                send(door.address, METRICS.path, sent, TABLE_CLIENTS)
                used = process_usage.cpu_used(before, process_usage.cpu_seconds(door.frazil.pid))
                bare = _decoding_cpu(METRICS, sample) / (len(sample) * points)
                measured.append(Round(used / (requests * points) * 1e6, bare * 1e6))
        yield figure(name, "CPU s/M", measured, BARE)


def _decoding_cpu(signal: Signal, sample: list[bytes]) -> float:
    """Returns the seconds of processor time for decoding one request at a time."""
    handler = handler_of(signal.requests.message.DESCRIPTOR, frozenset())
    started = time.process_time()
    for body in sample:
        handler.array_to_record_batch(pa.array([body], pa.binary()))
    return time.process_time() - started


# --- memory ----------------------------------------------------------------------------------------------------


def memory(bench: Bench) -> Iterator[Figure]:
    """Measures the largest memory of `frazil ingest`, hot buffer and all, while many clients send as much as they
    can.
    """
    requests = 500 if bench.quick else 3000
    with open_door("ingest", bench) as door, process_usage.PeakMemory(door.frazil.pid) as peak:
        load = send(door.address, LOGS.path, bodies(otlp_messages.logs(), requests, 1000), MANY_CLIENTS)
    name = f"{requests:,} requests of 1,000 log records, {MANY_CLIENTS} clients"
    yield Figure(f"{name}: memory", "MiB", peak.mib)
    yield from _latencies(name, [load])


# --- to the table ----------------------------------------------------------------------------------------------


class Goal(NamedTuple):
    """What another system needs for the same records: seconds of processor time for a million, and its name."""

    kind: RequestSource
    requests: int
    records: int
    peer: float
    peer_name: str
    target: float | None = None
    """The processor time for a million must stay below these seconds."""
    disk: float | None = None
    """The bytes on disk for each byte of OTLP must stay below this."""
    acknowledged: float | None = None
    """The processor time for a million, until the last is acknowledged, must stay below these seconds."""


SCRAPED = RequestSource("scraped points", METRICS, otlp_messages.scrapes)
GOALS = (
    Goal(REQUEST_SOURCES[0], 1000, 1000, 20.5, "VictoriaLogs, another run; Loki 101", 15.0, 69 / 346, 9.0),
    Goal(REQUEST_SOURCES[1], 500, 800, 13.59 / 0.4, "Tempo, another run"),
    Goal(REQUEST_SOURCES[2], 1920, 500, 3.5 / 0.96, "Prometheus, another run; VictoriaMetrics 2.6"),
    # Each request has 380 points, which are 500 samples of Prometheus.
    Goal(SCRAPED, 1920, 380, 2.7 / 0.73, "Prometheus, another run; VictoriaMetrics 1.5", acknowledged=3.0 / 0.73),
)


def to_table(bench: Bench) -> Iterator[Figure]:
    """Measures `frazil serve` with Spark, from the first request until all records are in the table."""
    for goal in GOALS:
        yield from _to_table(bench, goal)


def _to_table(bench: Bench, goal: Goal) -> Iterator[Figure]:
    topic, make = goal.kind.signal.requests.topic, goal.kind.make()
    requests = goal.requests // 5 if bench.quick else goal.requests
    count = requests * goal.records
    with open_door("serve", bench) as door:
        bench.say(f"{count:,} {goal.kind.name} to the table, as soon as Spark has started")
        first = list(bodies(make, 4, goal.records))
        sent = list(bodies(make, requests, goal.records))
        send(door.address, goal.kind.signal.path, first, 1)
        begun = len(first) * goal.records
        door.frazil.wait(lambda: committed(door.config, topic) >= begun)
        await_quiet(door.frazil)
        before = _disk(door.config, topic)
        with process_usage.CpuUse(door.frazil.pid) as cpu:
            started = time.perf_counter()
            with process_usage.CpuUse(door.frazil.pid) as first_cpu:
                send(door.address, goal.kind.signal.path, sent, TABLE_CLIENTS)
            door.frazil.wait(lambda: committed(door.config, topic) >= begun + count, 0.1)
            seconds = time.perf_counter() - started
        disk = _disk(door.config, topic) - before
    used = cpu.seconds / count * 1e6
    name = f"{goal.kind.name} to the table"
    yield Figure(f"{name}, with the time that the last ones wait for more", "records/s", count / seconds)
    yield Figure(
        f"{name}: CPU until the last is acknowledged",
        "CPU s/M",
        first_cpu.seconds / count * 1e6,
        target=Below(goal.acknowledged, "CPU s/M") if goal.acknowledged else None,
    )
    yield Figure(
        f"{name}: CPU, without the start of Spark",
        "CPU s/M",
        used,
        goal.peer,
        goal.peer_name,
        (goal.peer / used,),
        Below(goal.target, "CPU s/M") if goal.target else None,
    )
    for part, seconds in cpu_by_part(cpu).items():
        yield Figure(f"{name}: CPU of {part}", "CPU s/M", seconds / count * 1e6)
    size = sum(map(len, sent))
    yield Figure(f"{name}: in the table", "bytes per record", disk / count)
    yield Figure(
        f"{name}: in the table, of OTLP's {size / count:.0f} bytes per record",
        "bytes per byte",
        disk / size,
        target=Below(goal.disk, "bytes per byte") if goal.disk else None,
    )


def _disk(config: Config, topic: str) -> int:
    """Returns the bytes of the files that the table has now."""
    lake = Lake(config)
    try:
        table = lake.load(base_identifier(config, topic))
        return sum(task.file.file_size_in_bytes for task in table.scan().plan_files())
    finally:
        lake.close()
