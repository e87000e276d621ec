"""Measures how the pipeline behaves besides its speed: idling, memory, the commit alone."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from bench import process_usage, samples
from bench.backlog import SEGMENT_ROWS, Backlog, sample_rows
from bench.figures import Below, Bench, Figure, Round, figure
from bench.frazil_process import Frazil, committed, wait
from bench.log import NEVER, TOPIC, rng
from bench.pipeline import QUIET
from bench.settings import NO_TELEMETRY
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.log import LogConfig
from frazil.config.sections.pipeline import PipelineConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_folder, new_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.ranges import Range
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.tables.opening import open_base_table
from frazil.lake.tables.tables import base_identifier
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.log import Log
from frazil.pipeline.process_messages import settings_line
from frazil.store import open_store

IDLE_TOPICS = 3
MEMORY_ROWS = 2 * SEGMENT_ROWS
"""A batch has this many rows."""
SNAPSHOTS = 100


# --- idling ----------------------------------------------------------------------------------------------------


def idle_serve(bench: Bench) -> Iterator[Figure]:
    """Measures `frazil serve` with topics whose records are all in their tables."""
    seconds = 30 if bench.quick else 60
    data = bench.folder / "data"
    batch = samples.logs(1000, rng())
    with Log(Config(data_dir=data, log=LogConfig(seal=NEVER))) as log:
        for number in range(IDLE_TOPICS):
            log.writer(f"topic{number}", batch.schema).append(batch)
    config = Config(
        data_dir=data,
        pipeline=PipelineConfig(flush_interval_seconds=0.1),
        server=ServerConfig(port=0),
        **NO_TELEMETRY,
    )
    with Frazil("serve", config, bench.folder) as frazil:
        bench.say("serve: until the tables have all records")
        frazil.wait(lambda: all(committed(config, f"topic{number}") == 1000 for number in range(IDLE_TOPICS)))
        time.sleep(15)
        bench.say(f"serve: {seconds} seconds idle")
        with process_usage.CpuUse(frazil.pid) as cpu:
            time.sleep(seconds)
    yield Figure(
        f"serve, {IDLE_TOPICS} topics, idle",
        "% of a core",
        cpu.seconds / seconds * 100,
        target=Below(3, "% of a core"),
    )


# --- memory ----------------------------------------------------------------------------------------------------


def backlog_memory(bench: Bench) -> Iterator[Figure]:
    """Measures the most memory of all the pipeline's processes, with a backlog of ten batches and of one."""
    rows = sample_rows()
    peaks = {}
    for batches in (1, 10):
        data = bench.folder / f"data-{batches}"
        data.mkdir()
        config = Config(data_dir=data, pipeline=PipelineConfig(flush_batch_size=MEMORY_ROWS), maintenance=QUIET)
        with Backlog(bench.folder / f"staging-{batches}", data, TOPIC, rows) as backlog:
            bench.say(f"memory: a backlog of {batches} × {MEMORY_ROWS:,} rows")
            backlog.seal(batches * MEMORY_ROWS // SEGMENT_ROWS)
            backlog.show()
            with _pipeline(config) as process, process_usage.PeakMemory(process.pid) as peak:
                wait(process, lambda: committed(config, TOPIC) >= backlog.end)  # noqa: B023 - called at once
        peaks[batches] = peak.mib
    yield Figure(
        f"memory, a backlog of ten times {MEMORY_ROWS:,} rows",
        "MiB",
        peaks[10],
        peaks[1],
        "a backlog of one batch",
        (peaks[1] / peaks[10],),
        # All rows of ten batches would be far more: nothing of finished batches is kept.
        Below(round(1.5 * peaks[1]), "MiB"),
    )


@contextmanager
def _pipeline(config: Config) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the pipeline's process as `serve` starts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "frazil.app.pipeline_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(settings_line(config))
        process.stdin.flush()
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdin.close()


# --- the commit alone ------------------------------------------------------------------------------------------


def commit(bench: Bench) -> Iterator[Figure]:
    """Adds one file to a table with many snapshots, against PyIceberg's own way."""
    config = Config(data_dir=bench.folder / "data")
    config.data_dir.mkdir()
    lake = Lake(config)
    ours = _Table(config, lake, "ours")
    theirs = _Table(config, lake, "theirs")
    bench.say(f"commit: {SNAPSHOTS} snapshots for each table")
    for _ in range(SNAPSHOTS):
        ours.commit()
        theirs.commit()
    rounds = [
        Round(_median(b), _median([*a, *c]))
        for a, b, c in bench.alternate(
            "commit", lambda: [theirs.append() for _ in range(3)], lambda: [ours.commit() for _ in range(3)]
        )
    ]
    yield figure(f"commit on top of {SNAPSHOTS} snapshots", "ms", rounds, "PyIceberg's fast append")
    loads = []
    for _ in range(10):
        started = time.perf_counter()
        lake.load(base_identifier(config, "ours"))
        loads.append((time.perf_counter() - started) * 1000)
    yield Figure(f"loading a table of {SNAPSHOTS} snapshots", "ms", _median(loads))
    lake.close()


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


class _Table:
    """A table that gets one file at a time, each of a thousand rows that were written before."""

    def __init__(self, config: Config, lake: Lake, topic: str) -> None:
        self._config = config
        self._lake = lake
        self._topic = topic
        self._rows = samples.logs(1000, rng())
        self._rng = random.Random(7)
        store = open_store(config.store, config.data_dir)
        self._table = open_base_table(lake, store, config, topic, self._rows.schema, log_starts={0: 0}, epochs={})

    def commit(self) -> float:
        """Returns the milliseconds of the pipeline's commit."""
        state = TableState.of(self._table)
        start = state.offsets.get(0, 0)
        attempt = new_attempt(time.time_ns() // 1_000_000, self._rng)
        file = self._write(attempt, start)
        wanted = Attempt(
            id=attempt,
            ranges=(Range(0, start, start + 1000, "e"),),
            files=(file,),
            table_uuid=state.uuid,
            schema_id=state.schema_id,
            spec_id=state.spec_id,
        )
        started = time.perf_counter()
        outcome = commit_add_files(self._lake, self._table, wanted)
        elapsed = time.perf_counter() - started
        assert isinstance(outcome, Committed)
        self._table = outcome.table
        return elapsed * 1000

    def append(self) -> float:
        """Returns the milliseconds of PyIceberg's own commit."""
        file = self._write(new_attempt(time.time_ns() // 1_000_000, self._rng), 0)
        started = time.perf_counter()
        with self._table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
            snapshot.append_data_file(file)
        return (time.perf_counter() - started) * 1000

    def _write(self, attempt: str, start: int) -> DataFile:
        table: Table = self._table
        mapped = Mapper(self._rows.schema, table.schema()).map(self._rows, 0, start)
        io = load_file_io(dict(table.io.properties), table.location())
        writer = DataFileWriter(io, table.metadata, attempt_folder(table.location(), attempt), 0)
        writer.write(mapped.batch)
        (file,) = writer.close()
        return file
