"""Measures the figures of the log that have a target, and those that explain them."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bench import machine, samples
from bench.figures import AtLeast, Below, Bench, Figure, Latencies, Round, figure, quietest
from bench.machine import MB
from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig, Sync
from frazil.log.log import Log
from frazil.log.wal.recovery import wal_files
from frazil.log.writer.writer import PartitionWriter

TOPIC = "bench"
APPENDERS = 64
BATCH_ROWS = 10_000
NEVER = SealConfig(interval_seconds=86_400.0, max_mb=1_000_000, max_rows=10**12)
"""Never seal. Sealing has a figure of its own, and elsewhere it would only compete for the cores."""


def config(folder: Path, sync: Sync) -> Config:
    """Returns the default settings, but for sealing and the bound of the tail."""
    return Config(data_dir=folder, log=LogConfig(sync=sync, max_tail_mb=1_000_000, seal=NEVER))


@contextmanager
def unsealed(folder: Path, sync: Sync) -> Iterator[Log]:
    """Opens a log that leaves its records in the WAL when it is closed."""
    log = Log(config(folder, sync))
    try:
        yield log
    finally:
        log.close(seal=False)


def rng() -> random.Random:
    return random.Random(3)


# --- one record ------------------------------------------------------------------------------------------------


def append(bench: Bench) -> Iterator[Figure]:
    """Appends one record of 1 KiB at a time, with `periodic`."""
    count = 1000 if bench.quick else 2000
    batch = samples.one_kib(rng())
    bare = bytes(batch.serialize())
    with unsealed(bench.folder / "data", "periodic") as log:
        writer = log.writer(TOPIC, batch.schema)
        with asyncio.Runner() as runner:
            calls: dict[str, Callable[[], Latencies]] = {
                "append": lambda: _append_latencies(writer, batch, count),
                "append_async": lambda: runner.run(_append_async_latencies(writer, batch, count)),
            }
            for name, ours in calls.items():
                ours()
                rounds = list(bench.alternate(name, lambda: machine.write_latencies(bench.folder, bare, count), ours))
                yield figure(
                    f"{name} of 1 KiB, periodic: p50", "ms", [Round(b.p50, a.p50) for a, b, _ in rounds], "one pwrite"
                )
                yield figure(
                    f"{name} of 1 KiB, periodic: p99",
                    "ms",
                    [Round(b.p99, a.p99) for a, b, _ in rounds],
                    "one pwrite",
                    Below(1, "ms"),
                )


def _append_latencies(writer: PartitionWriter, batch: pa.RecordBatch, count: int) -> Latencies:
    taken: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        writer.append(batch)
        taken.append(time.perf_counter() - started)
    return Latencies.of(taken)


async def _append_async_latencies(writer: PartitionWriter, batch: pa.RecordBatch, count: int) -> Latencies:
    taken: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        await writer.append_async(batch)
        taken.append(time.perf_counter() - started)
    return Latencies.of(taken)


# --- many at once ----------------------------------------------------------------------------------------------


def concurrent(bench: Bench) -> Iterator[Figure]:
    """Appends from 64 appenders at once, with `always`. Each appends again as soon as it is acknowledged."""
    seconds = 0.3 if bench.quick else 0.6
    batch = samples.one_kib(rng())
    group = bytes(APPENDERS * 1024)
    with unsealed(bench.folder / "data", "always") as log:
        writer = log.writer(TOPIC, batch.schema)
        with asyncio.Runner() as runner:

            def tasks() -> _Load:
                return runner.run(_append_by_tasks(writer, batch, seconds))

            def growing() -> _Load:
                bare = machine.syncs(bench.folder, group, seconds / 2)
                return _Load(bare.per_second * APPENDERS, bare.latencies)

            def prefilled() -> float:
                return machine.syncs(bench.folder, group, seconds / 2, prefilled=True).per_second * APPENDERS

            tasks()
            rounds = list(bench.alternate("64 tasks", growing, tasks))
            speeds = [Round(b.per_second, (a.per_second + c.per_second) / 2) for a, b, c in rounds]
            limit = "64 × fdatasync of a growing file"
            yield figure("64 tasks, always", "appends/s", speeds, limit, AtLeast(0.5))
            yield figure("64 tasks, always: quietest third", "appends/s", quietest(speeds), limit, AtLeast(0.5))
            for name, pick in (("p50", 0), ("p99", 1)):
                yield figure(
                    f"64 tasks, always: {name}",
                    "ms",
                    [Round(b.latencies[pick], (a.latencies[pick] + c.latencies[pick]) / 2) for a, b, c in rounds],
                    "one fdatasync",
                )
            yield figure(
                "64 tasks, always, against a prefilled file",
                "appends/s",
                bench.speeds("64 tasks (prefilled)", prefilled, lambda: tasks().per_second),
                "64 × fdatasync inside a prefilled file",
            )

        def threads() -> float:
            return _append_by_threads(writer, batch, seconds)

        yield figure(
            "64 threads, always",
            "appends/s",
            bench.speeds("64 threads", lambda: growing().per_second, threads),
            "64 × fdatasync of a growing file",
        )


class _Load:
    """What many appenders achieved together."""

    def __init__(self, per_second: float, latencies: Latencies) -> None:
        self.per_second = per_second
        self.latencies = latencies


async def _append_by_tasks(writer: PartitionWriter, batch: pa.RecordBatch, seconds: float) -> _Load:
    taken: list[float] = []
    begun = time.perf_counter()
    end = begun + seconds

    async def appender() -> None:
        started = time.perf_counter()
        while started < end:
            await writer.append_async(batch)
            now = time.perf_counter()
            taken.append(now - started)
            started = now

    await asyncio.gather(*(appender() for _ in range(APPENDERS)))
    return _Load(len(taken) / (time.perf_counter() - begun), Latencies.of(taken))


def _append_by_threads(writer: PartitionWriter, batch: pa.RecordBatch, seconds: float) -> float:
    counts = [0] * APPENDERS
    begun = time.perf_counter()
    end = begun + seconds

    def appender(number: int) -> None:
        while time.perf_counter() < end:
            writer.append(batch)
            counts[number] += 1

    threads = [threading.Thread(target=appender, args=(number,)) for number in range(APPENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


# --- batches ---------------------------------------------------------------------------------------------------


def batches(bench: Bench) -> Iterator[Figure]:
    """Appends batches of 10,000 rows, one after the other."""
    times = 8 if bench.quick else 12
    cases: list[tuple[str, Sync, pa.RecordBatch, AtLeast | None]] = [
        ("logs (map), periodic", "periodic", samples.logs(BATCH_ROWS, rng()), AtLeast(0.6)),
        ("raw messages, periodic", "periodic", samples.flat(BATCH_ROWS, rng()), AtLeast(0.6)),
        ("spans (struct), periodic", "periodic", samples.spans(BATCH_ROWS, rng()), AtLeast(0.6)),
        ("logs (map), none", "none", samples.logs(BATCH_ROWS, rng()), None),
    ]
    for name, sync, batch, target in cases:
        folder = bench.folder / name
        folder.mkdir()
        serialized = [memoryview(batch.serialize())] * 4
        size = len(serialized) * len(serialized[0])
        bare_files = (folder / str(number) for number in itertools.count())
        with unsealed(folder / "data", sync) as log:
            writer = log.writer(TOPIC, batch.schema)

            def ours(writer: PartitionWriter = writer, batch: pa.RecordBatch = batch, size: int = size) -> float:
                started = time.perf_counter()
                for _ in range(times * 4):
                    writer.append(batch)
                return times * size / MB / (time.perf_counter() - started)

            def bare(files: Iterator[Path] = bare_files, data: list[memoryview] = serialized) -> float:
                return machine.write_with_crc(next(files), data, times)

            ours()
            yield figure(f"10,000 rows: {name}", "MB/s", bench.speeds(name, bare, ours), "pwrite + crc32", target)
        shutil.rmtree(folder)


# --- opening again ---------------------------------------------------------------------------------------------


def reopen(bench: Bench) -> Iterator[Figure]:
    """Opens a WAL that was left behind, all of it in the page cache."""
    size = (256 << 20) if bench.quick else (1 << 30)
    gib = f"{size / (1 << 30):g} GiB"
    cases = [
        (f"reopening {gib}, 10,000 rows a frame", BATCH_ROWS, AtLeast(0.5)),
        (f"reopening {gib}, 64 KiB a frame", 330, None),
    ]
    for name, rows, target in cases:
        folder = bench.folder / f"rows-{rows}"
        batch = samples.logs(rows, rng())
        bench.say(f"{name}: writing it")
        with unsealed(folder, "none") as log:
            writer = log.writer(TOPIC, batch.schema)
            while writer.tail.nbytes < size:
                writer.append(batch)
            directory = next((folder / "wal").rglob("*.wal")).parent

        def bare(directory: Path = directory) -> float:
            return machine.crc_speed(wal_files(directory))

        def ours(directory: Path = directory, folder: Path = folder) -> float:
            total = sum(path.stat().st_size for path in wal_files(directory))
            started = time.perf_counter()
            with unsealed(folder, "none") as log:
                log.writer(TOPIC)
                return total / MB / (time.perf_counter() - started)

        bare()
        ours()
        yield figure(name, "MB/s", bench.speeds(name, bare, ours), "crc32 over the mapped files", target)


# --- sealing ---------------------------------------------------------------------------------------------------


def seal(bench: Bench) -> Iterator[Figure]:
    """Seals a tail to a durable segment."""
    count = 10 if bench.quick else 30
    source = rng()
    batches = [samples.logs(BATCH_ROWS, source) for _ in range(count)]
    table = pa.Table.from_batches(batches).combine_chunks()
    settings = config(bench.folder / "data", "none")
    with Log(settings) as log:
        writer = log.writer(TOPIC, table.schema)

        def ours() -> float:
            for batch in batches:
                writer.append(batch)
            started = time.perf_counter()
            segment = writer.seal()
            elapsed = time.perf_counter() - started
            assert segment
            return (segment.end - segment.first) / elapsed

        def bare(sync: bool) -> float:
            path = bench.folder / "bare.parquet"
            return machine.parquet_speed(path, table, settings.log.compression_level, sync=sync)

        ours()
        yield figure(
            f"sealing {count * BATCH_ROWS:,} rows",
            "rows/s",
            bench.speeds("sealing", lambda: bare(True), ours),
            "write_table + fsync",
            AtLeast(0.85),
        )
        yield figure(
            f"sealing {count * BATCH_ROWS:,} rows, against no fsync",
            "rows/s",
            bench.speeds("sealing (no fsync)", lambda: bare(False), ours),
            "write_table",
        )
