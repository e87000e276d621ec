"""Measures what the machine can do by itself: the bare loops that figures are compared with."""

from __future__ import annotations

import mmap
import os
import platform
import queue
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from bench.figures import Latencies

MB = 1_000_000
PREFILLED = 64 * 1024 * 1024


def describe() -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": f"{platform.python_version()}, pyarrow {pa.__version__}",
        "load average": load(),
    }


def load() -> str:
    return ", ".join(f"{average:.2f}" for average in os.getloadavg())


class ScratchFile:
    """A file to write into, which is deleted afterwards."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)

    def __enter__(self) -> ScratchFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
        self._path.unlink()


def write_latencies(folder: Path, data: bytes, count: int) -> Latencies:
    """Measures one `pwrite` after the other, without syncing."""
    taken: list[float] = []
    with ScratchFile(folder / "bare") as file:
        for index in range(count):
            started = time.perf_counter()
            os.pwrite(file.fd, data, index * len(data))
            taken.append(time.perf_counter() - started)
    return Latencies.of(taken)


class Syncs:
    """Speed and latencies of writing a little and syncing it, over and over."""

    def __init__(self, seconds: Sequence[float], elapsed: float) -> None:
        self.per_second = len(seconds) / elapsed
        self.latencies = Latencies.of(seconds)


def syncs(folder: Path, data: bytes, seconds: float, *, prefilled: bool = False) -> Syncs:
    """Measures `pwrite` + `fdatasync`, on a growing file or inside one that is already full of zeros on disk."""
    taken: list[float] = []
    with ScratchFile(folder / "bare") as file:
        if prefilled:
            for start in range(0, PREFILLED, 1 << 20):
                os.pwrite(file.fd, bytes(1 << 20), start)
            os.fsync(file.fd)
        position = 0
        begun = started = time.perf_counter()
        while started - begun < seconds:
            os.pwrite(file.fd, data, position)
            os.fdatasync(file.fd)
            position += len(data)
            if prefilled and position + len(data) > PREFILLED:
                position = 0
            now = time.perf_counter()
            taken.append(now - started)
            started = now
    return Syncs(taken, started - begun)


def write_with_crc(path: Path, data: Sequence[memoryview], times: int) -> float:
    """Returns the MB/s of writing the same bytes with their checksum. The file stays, as the pages of a WAL do."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    position = 0
    try:
        started = time.perf_counter()
        for _ in range(times):
            for part in data:
                checksum = crc32(part)
                position += os.pwritev(fd, [part, checksum.to_bytes(4, "little")], position)
        return position / MB / (time.perf_counter() - started)
    finally:
        os.close(fd)


def crc_speed(paths: Sequence[Path]) -> float:
    """Returns the MB/s of CRC32 over files in the page cache."""
    total = 0
    started = time.perf_counter()
    for path in paths:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            crc32(mapped)
            total += len(mapped)
    return total / MB / (time.perf_counter() - started)


def parquet_speed(path: Path, table: pa.Table, level: int, *, sync: bool) -> float:
    """Returns the rows/s of writing a Parquet file with the options of a segment."""
    started = time.perf_counter()
    pq.write_table(
        table, path, compression="zstd", compression_level=level, write_page_index=True, write_page_checksum=True
    )
    if sync:
        for name, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
            fd = os.open(name, flags)
            os.fsync(fd)
            os.close(fd)
    elapsed = time.perf_counter() - started
    path.unlink()
    return float(table.num_rows) / elapsed


def handoff_latencies(count: int, pause: float) -> Latencies:
    """Measures passing a value from one thread to another through a queue."""
    taken: list[float] = []
    box: queue.SimpleQueue[float] = queue.SimpleQueue()

    def receive() -> None:
        for _ in range(count):
            sent = box.get()
            taken.append(time.perf_counter() - sent)

    thread = threading.Thread(target=receive)
    thread.start()
    for _ in range(count):
        time.sleep(pause)
        box.put(time.perf_counter())
    thread.join()
    return Latencies.of(taken)


def resident_mib() -> float:
    """Returns the memory of this process as the system counts it, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * mmap.PAGESIZE / (1 << 20)
