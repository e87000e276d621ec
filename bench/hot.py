"""Measures the hot buffer: lookups by key in process and over HTTP, and the memory that it takes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from bench.figures import Below, Bench, Figure, Latencies, Round, figure
from bench.frazil_process import Connection
from bench.hot_server import HotMeasurement
from bench.log import TOPIC

REQUESTS = 300
"""One round has this many requests."""


def hot(bench: Bench) -> Iterator[Figure]:
    """Uses five million records of 130 bytes, all in memory."""
    rows = 500_000 if bench.quick else 5_000_000
    bench.say(f"hot: appending {rows:,} records")
    with _serving(bench, rows) as measured, closing(Connection(measured.address)) as connection:
        name = f"hot lookup by key, {rows:,} rows"
        yield Figure(f"{name}, in process: p50", "ms", measured.p50_ms)
        yield Figure(f"{name}, in process: p99", "ms", measured.p99_ms, target=Below(1, "ms"))
        yield from _over_http(bench, name, connection, measured.keys)
    part = measured.index_bytes / measured.record_bytes * 100
    yield Figure("hot buffer: its index", "% of the records", part, target=Below(15, "% of the records"))
    yield Figure(
        f"hot buffer: memory for {measured.record_bytes / rows:.0f} bytes a record, with index and all",
        "bytes per byte",
        measured.resident_bytes / measured.record_bytes,
    )


def _over_http(bench: Bench, name: str, connection: Connection, keys: Sequence[str]) -> Iterator[Figure]:
    rng = random.Random(5)

    def lookups() -> Latencies:
        return _ask(connection, [f"/hot/{TOPIC}/key/{key}" for key in rng.sample(keys, REQUESTS)])

    def nothing() -> Latencies:
        return _ask(connection, ["/healthz"] * REQUESTS)

    rounds = list(bench.alternate(f"{name}, over HTTP", nothing, lookups))
    targets = {"p50": None, "p99": Below(5, "ms")}
    for part, target in targets.items():
        pairs = [Round(getattr(b, part), (getattr(a, part) + getattr(c, part)) / 2) for a, b, c in rounds]
        yield figure(f"{name}, over HTTP: {part}", "ms", pairs, "/healthz of the same server", target)


def _ask(connection: Connection, paths: Sequence[str]) -> Latencies:
    taken = []
    for path in paths:
        started = time.perf_counter()
        status, body = connection.get(path)
        taken.append(time.perf_counter() - started)
        assert status == 200, body
    return Latencies.of(taken)


@contextmanager
def _serving(bench: Bench, rows: int) -> Iterator[HotMeasurement]:
    command = [sys.executable, "-m", "bench.hot_server", str(bench.folder / "data"), str(rows)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield HotMeasurement(**json.loads(process.stdout.readline()))
        finally:
            process.terminate()
