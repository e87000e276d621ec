"""Measures the memory of all processes of `frazil serve`, when idle and while a million log records are moved."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench import otlp_messages, process_usage
from bench.figures import Below, Bench, Figure
from bench.frazil_process import committed
from bench.http_load import send
from bench.otlp import TABLE_CLIENTS, open_door
from bench.otlp_messages import bodies
from frazil.doors.otlp.signals import LOGS

QUIET_SECONDS = 150
"""After this time all that is not needed has ended. The last is the process for queries, after two minutes."""
IDLE_MIB, PEAK_MIB = 600, 1331
"""The memory must stay below these bounds."""


def serve_memory(bench: Bench) -> Iterator[Figure]:
    requests = 200 if bench.quick else 1000
    make, topic = otlp_messages.logs(), LOGS.requests.topic
    with open_door("serve", bench) as door:
        first, sent = list(bodies(make, 4, 1000)), list(bodies(make, requests, 1000))
        send(door.address, LOGS.path, first, 1)
        door.frazil.wait(lambda: committed(door.config, topic) >= 4000)
        bench.say(f"serve: {QUIET_SECONDS} seconds without anything to do")
        time.sleep(QUIET_SECONDS)
        idle = process_usage.memory_mib(door.frazil.pid)
        bench.say(f"serve: {requests * 1000:,} log records")
        with process_usage.PeakMemory(door.frazil.pid) as peak:
            send(door.address, LOGS.path, sent, TABLE_CLIENTS)
            door.frazil.wait(lambda: committed(door.config, topic) >= 4000 + requests * 1000, 0.1)
    yield Figure("serve, idle: memory of all processes", "MiB", idle, target=Below(IDLE_MIB, "MiB"))
    yield Figure(
        f"serve, {requests * 1000:,} log records to the table: memory of all processes, at most",
        "MiB",
        peak.mib,
        target=Below(PEAK_MIB, "MiB"),
    )
