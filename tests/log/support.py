"""Small helpers for tests of the log."""

from __future__ import annotations

import random
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from frazil.clock import World, boot_id
from frazil.log import layout
from frazil.log.positions import (
    Origin,
    Sequence,
    Source,
    StoredAppend,
)
from frazil.log.reader import PartitionReader, Records, TailSource
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.wal.recovery import ScannedWal, wal_files
from frazil.log.writer.opening import open_writer
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.writer import PartitionWriter
from frazil.store import ObjectStore

TOPIC = "orders"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
EXECUTOR: Executor = ThreadPoolExecutor(4, thread_name_prefix="test-commit")


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self.ticks = 0
        """The monotonic clock is ahead by so many milliseconds: nobody sets it back."""

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return (self.ms + self.ticks) / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += max(1, int(seconds * 1000))

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


class Machine:
    """A machine that a test reboots."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.boot = "first boot"
        self.world = World(self.clock, random.Random(seed), lambda: self.boot)

    @classmethod
    def real(cls) -> Machine:
        """Return this machine, for WALs that a real process is going to read."""
        machine = cls()
        machine.boot = boot_id()
        return machine

    def reboot(self) -> None:
        self.boot = f"after {self.boot}"


def rows(start: int, count: int) -> pa.RecordBatch:
    ids = list(range(start, start + count))
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], schema=SCHEMA)


def wal_of(folder: Path, partition: int = 0) -> Path:
    return layout.wal_directory(folder, TOPIC, partition)


def newest_wal(folder: Path) -> Path:
    return wal_files(wal_of(folder))[-1]


def cut_zeros(path: Path) -> Path:
    """Cut a WAL file where its frames end: it has its full size from the start."""
    with path.open("r+b") as file:
        file.truncate(ScannedWal(path).clean_bytes)
    return path


def writer(
    store: ObjectStore,
    folder: Path,
    machine: Machine | None = None,
    *,
    partition: int = 0,
    schema: pa.Schema = SCHEMA,
    options: WriterOptions | None = None,
    **changes: object,
) -> PartitionWriter:
    """Open a writer without any background work, so that a test decides when to seal."""
    schemas = TopicSchemas(store, TOPIC)
    schemas.admit(schema)
    return open_writer(
        TOPIC,
        partition,
        directory=wal_of(folder, partition),
        store=store,
        schemas=schemas,
        options=replace(options or WriterOptions(), **changes),  # type: ignore[arg-type]
        world=(machine or Machine()).world,
        executor=EXECUTOR,
    )


def crash(abandoned: PartitionWriter) -> None:
    """Release a writer as a killed process does: nothing is finished."""
    abandoned._dropping.result()
    abandoned._syncing.result()
    abandoned._lock.release()
    wal = abandoned._committer._wal
    if wal:
        wal.file.close_file()


def reader(
    store: ObjectStore, tail: TailSource | PartitionWriter | None = None, partition: int = 0
) -> PartitionReader:
    source = tail.tail if isinstance(tail, PartitionWriter) else tail
    return PartitionReader(store, TopicSchemas(store, TOPIC), TOPIC, partition, lambda: source)


def ids(records: Iterable[Records]) -> list[int]:
    """Return the ids of all records, after a check that their offsets follow each other."""
    found: list[int] = []
    expected: int | None = None
    for run in records:
        assert expected in (None, run.offset)
        expected = run.end
        found += run.batch.column("id").to_pylist()
    return found


names = st.text(min_size=1, max_size=8)


origins = st.builds(
    Origin,
    source=st.none() | st.builds(Source, names, names, st.integers(0, 2**62)),
    sequence=st.none() | st.builds(Sequence, names, st.integers(0, 2**62)),
    request=st.none() | st.binary(min_size=8, max_size=32),
)


stored = st.lists(st.builds(StoredAppend, st.integers(0, 2**62), st.integers(1, 2**31), origins), max_size=20)
