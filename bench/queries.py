"""Measures queries beside the doors: whether they disturb the event loop, and how soon they see what has come."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from tests.servers.child import free_ports

from bench import otlp_messages
from bench.bare_http_server import HOST
from bench.figures import AtLeast, Below, Bench, Figure, Latencies, Round, figure
from bench.frazil_process import Connection, wait
from bench.http_load import send
from bench.otlp import CLIENTS, open_door
from bench.otlp_messages import bodies
from bench.settings import NO_TELEMETRY
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.endpoint import EndpointConfig
from frazil.config.sections.otlp import OtlpConfig
from frazil.config.sections.pipeline import PipelineConfig
from frazil.doors.otlp.signals import LOGS

RECORDS = 100
"""A request has this many log records."""
PART_OF_LOAD = 0.3
SETTLE_SECONDS = 1.0
HEAVY = "SELECT sum(a.range * b.range % 7) AS n FROM range(60000) AS a, range(60000) AS b"
"""This takes all cores for longer than a round."""
_MARK = b"frazil-bench-0000000"


class Serving(NamedTuple):
    door: tuple[str, int]
    operations: str
    lateness: Path

    def late(self, start: float, end: float) -> Latencies:
        """Returns how late the event loop was in this time."""
        lines = (line.split() for line in self.lateness.read_text().splitlines())
        return Latencies.of([float(late) for at, late in lines if start <= float(at) < end])


def lateness(bench: Bench) -> Iterator[Figure]:
    """Sends the doors 30 % of the requests that they can take, with and without a query that takes all cores."""
    seconds = 4.0 if bench.quick else 15.0
    rounds = 2 if bench.quick else 5
    with _serving(bench) as serving:
        with closing(Connection(serving.operations)) as connection:
            connection.sql("SELECT 1")
        most = send(serving.door, LOGS.path, bodies(otlp_messages.logs(), 300, RECORDS), CLIENTS).per_second
        bench.say(f"doors: {most:,.0f} requests/s at most")
        time.sleep(SETTLE_SECONDS)
        with _paced(serving.door, most * PART_OF_LOAD):

            def idle() -> Latencies:
                start = time.monotonic()
                time.sleep(seconds)
                return serving.late(start, time.monotonic())

            def querying() -> Latencies:
                with _running(serving.operations, HEAVY):
                    return idle()

            measured = list(bench.alternate("doors while a query runs", idle, querying, rounds))
    for part, target in (("p50", None), ("p99", AtLeast(0.5))):
        pairs = [Round(getattr(b, part), (getattr(a, part) + getattr(c, part)) / 2) for a, b, c in measured]
        name = f"event loop of the doors at {PART_OF_LOAD:.0%} load while a query runs: late, {part}"
        yield figure(name, "ms", pairs, "the same without a query", target)


def sql_count(bench: Bench) -> Iterator[Figure]:
    """Counts a million log records that came a moment ago to a topic that is queried."""
    requests = 200 if bench.quick else 1000
    with open_door("serve", bench) as door, door.frazil.connect() as connection:
        send(door.address, LOGS.path, bodies(otlp_messages.logs(), 1, 1000), 1)
        _counted(connection, 1000)
        send(door.address, LOGS.path, bodies(otlp_messages.logs(), requests - 1, 1000, seed=2), CLIENTS)
        first, *again = [_counted(connection, requests * 1000) for _ in range(6)]
    name = f"SELECT count(*) of {requests * 1000:,} log records that have just come"
    yield Figure(name, "ms", first, target=Below(300, "ms"))
    yield Figure(f"{name}: again, median", "ms", sorted(again)[len(again) // 2])


def _counted(connection: Connection, rows: int) -> float:
    started = time.perf_counter()
    answer = connection.sql("SELECT count(*) AS n FROM logs")
    taken = (time.perf_counter() - started) * 1e3
    assert json.loads(answer) == [{"n": rows}], answer
    return taken


@contextmanager
def _running(address: str, text: str) -> Iterator[None]:
    """Runs a query for as long as the block takes, and then goes away."""
    connection = HTTPConnection(address)
    connection.request("POST", "/sql", text)
    time.sleep(SETTLE_SECONDS)
    try:
        yield
    finally:
        connection.close()
        time.sleep(SETTLE_SECONDS)


@contextmanager
def _paced(address: tuple[str, int], per_second: float) -> Iterator[None]:
    """Sends requests at an even rate, each with other records."""
    request = ExportLogsServiceRequest.FromString(next(bodies(otlp_messages.logs(), 1, RECORDS)))
    request.resource_logs[0].resource.attributes.add(key="number", value=AnyValue(string_value=_MARK.decode()))
    pattern: bytes = request.SerializeToString()
    ended = threading.Event()
    numbers = count(1)

    def work() -> None:
        connection = HTTPConnection(*address)
        due = time.monotonic()
        while not ended.wait(max(0.0, due - time.monotonic())):
            body = pattern.replace(_MARK, b"frazil-bench-%07d" % next(numbers))
            connection.request("POST", LOGS.path, body, {"content-type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            due += senders / per_second
        connection.close()

    senders = 4
    threads = [threading.Thread(target=work) for _ in range(senders)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in threads:
            each.join()


@contextmanager
def _serving(bench: Bench) -> Iterator[Serving]:
    """Runs all of `frazil serve` but the pipeline, which would take turns with the query."""
    http, grpc, port = free_ports(3)
    doors = {**NO_TELEMETRY, "otlp": OtlpConfig(http=EndpointConfig(port=http), grpc=EndpointConfig(port=grpc))}
    data = bench.folder / f"data-{uuid.uuid4().hex}"
    config = Config(data_dir=data, server=ServerConfig(port=port), pipeline=PipelineConfig(enabled=False), **doors)
    settings, lateness = bench.folder / "lateness.yaml", bench.folder / "lateness.txt"
    settings.write_text(json.dumps(config.model_dump(mode="json", exclude_unset=True)))
    command = [sys.executable, "-m", "bench.lateness_server", str(settings), str(lateness)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            wait(process, lambda: lateness.exists() and lateness.stat().st_size > 0, 0.05)
            yield Serving((HOST, http), f"{HOST}:{port}", lateness)
        finally:
            process.terminate()
    shutil.rmtree(data)
