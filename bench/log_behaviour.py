"""Measures how the log behaves besides its speed: latency of followers, memory, idling."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from bench import machine, samples
from bench.figures import Below, Bench, Figure, Latencies, Round, figure
from bench.log import BATCH_ROWS, TOPIC, rng, unsealed
from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.log.follow import follow
from frazil.log.log import Log
from frazil.log.reader import PartitionReader
from frazil.log.writer.writer import PartitionWriter

PAUSE_SECONDS = 0.002
"""The pause between appends, so that a follower waits for each."""
TAIL_MIB = 64
PARTITIONS = 50

_spawn = multiprocessing.get_context("spawn")


# --- followers -------------------------------------------------------------------------------------------------


def followers(bench: Bench) -> Iterator[Figure]:
    """Measures the time from the call of `append` until a follower has the record."""
    count = 150 if bench.quick else 250
    schema = pa.schema([("sent_ns", pa.int64())])
    folder = bench.folder / "data"
    with unsealed(folder, "periodic") as log:
        writer = log.writer(TOPIC, schema)
        rounds = list(
            bench.alternate(
                "follower in this process",
                lambda: machine.handoff_latencies(count, PAUSE_SECONDS),
                lambda: _followed_here(log, writer, count),
            )
        )
        for name, pick in (("p50", 0), ("p99", 1)):
            yield figure(
                f"follower in this process: {name}",
                "ms",
                [Round(b[pick], a[pick]) for a, b, _ in rounds],
                "thread to thread through a queue",
            )
        bench.say("follower in another process")
        taken = _followed_elsewhere(folder, writer, count * bench.rounds)
        yield Figure("follower in another process: p50", "ms", taken.p50)
        yield Figure("follower in another process: p99", "ms", taken.p99, target=Below(100, "ms"))


def _followed_here(log: Log, writer: PartitionWriter, count: int) -> Latencies:
    taken: list[float] = []
    start = writer.next_offset
    reader = log.reader(TOPIC, writer.partition)
    thread = threading.Thread(target=lambda: taken.extend(_arrivals(reader, start, count)))
    thread.start()
    _send(writer, count)
    thread.join()
    return Latencies.of(taken)


def _followed_elsewhere(folder: Path, writer: PartitionWriter, count: int) -> Latencies:
    here, there = _spawn.Pipe()
    process = _spawn.Process(target=_follower, args=(there, folder, writer.partition, writer.next_offset, count))
    process.start()
    here.recv()
    _send(writer, count)
    taken: list[float] = here.recv()
    process.join()
    return Latencies.of(taken)


def _follower(parent: Connection, folder: Path, partition: int, start: int, count: int) -> None:
    with unsealed(folder, "periodic") as log:
        reader = log.reader(TOPIC, partition)
        parent.send("ready")
        parent.send(_arrivals(reader, start, count))


def _send(writer: PartitionWriter, count: int) -> None:
    for _ in range(count):
        time.sleep(PAUSE_SECONDS)
        writer.append(pa.record_batch({"sent_ns": pa.array([time.monotonic_ns()], pa.int64())}))


def _arrivals(reader: PartitionReader, start: int, count: int) -> list[float]:
    """Returns the seconds that each record took. All processes of a machine share this clock."""
    taken: list[float] = []
    for records in follow(reader, start, stop=lambda: len(taken) >= count):
        now = time.monotonic_ns()
        taken.extend((now - sent) / 1e9 for sent in records.batch.column("sent_ns").to_pylist())
        if len(taken) >= count:
            break
    return taken


# --- memory ----------------------------------------------------------------------------------------------------


def memory(bench: Bench) -> Iterator[Figure]:
    """Puts much data through a small tail that is sealed all the while."""
    total_mib = 256 if bench.quick else 2048
    bench.say(f"{total_mib} MiB through a tail of {TAIL_MIB} MiB")
    here, there = _spawn.Pipe()
    process = _spawn.Process(target=_append_much, args=(there, bench.folder / "data", total_mib))
    process.start()
    grown: float = here.recv()
    process.join()
    yield Figure(
        f"memory for {total_mib:,} MiB through a tail of {TAIL_MIB} MiB",
        "MiB",
        grown,
        TAIL_MIB,
        "the tail alone",
        (TAIL_MIB / grown,),
        Below(4 * TAIL_MIB, "MiB"),
    )


def _append_much(parent: Connection, folder: Path, total_mib: int) -> None:
    """Sends back how much the process grew, in MiB."""
    batch = samples.logs(BATCH_ROWS, rng())
    log_config = LogConfig(
        sync="periodic",
        max_tail_mb=TAIL_MIB,
        append_timeout_seconds=120.0,
        seal=SealConfig(interval_seconds=10.0, max_mb=16, max_rows=1_000_000),
    )
    with Log(Config(data_dir=folder, log=log_config)) as log:
        writer = log.writer(TOPIC, batch.schema)
        before = peak = machine.resident_mib()
        done = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.01):
                peak = max(peak, machine.resident_mib())

        watcher = threading.Thread(target=watch)
        watcher.start()
        for _ in range((total_mib << 20) // batch.nbytes):
            writer.append(batch)
        done.set()
        watcher.join()
    parent.send(peak - before)


# --- idling ----------------------------------------------------------------------------------------------------


def idle(bench: Bench) -> Iterator[Figure]:
    """Measures a log with many partitions that has nothing to do."""
    seconds = 2.0 if bench.quick else 5.0
    batch = samples.one_kib(rng())
    with unsealed(bench.folder / "data", "periodic") as log:
        for partition in range(PARTITIONS):
            log.writer(TOPIC, batch.schema, partition=partition).append(batch)
        bench.say(f"{PARTITIONS} partitions, idle")
        time.sleep(0.5)
        before = time.process_time()
        time.sleep(seconds)
        used = time.process_time() - before
    yield Figure(f"{PARTITIONS} open partitions, idle", "% of a core", used / seconds * 100)
