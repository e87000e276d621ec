"""Measures the figures of the pipeline that have a target: rows moved, and the time that a small batch takes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import process_usage, samples
from bench.backlog import SEGMENT_ROWS, Backlog, sample_rows
from bench.bare_pyarrow import BareWriters, Layout
from bench.figures import AtLeast, Bench, Figure, Round, figure
from bench.log import NEVER, TOPIC, rng
from bench.running_pipeline import RunningPipeline, Trigger
from bench.spark_append import SparkAppender
from frazil.config.model import Config
from frazil.config.sections.lake import TableConfig
from frazil.config.sections.log import LogConfig
from frazil.config.sections.maintenance import MaintenanceConfig
from frazil.config.sections.pipeline import PipelineConfig
from frazil.config.sections.topics import TopicConfig
from frazil.log.log import Log
from frazil.pipeline.txlog.entries import CommitEnd, CommitStart, Entry, FlushStart
from frazil.pipeline.txlog.show import history

BATCH_ROWS = 2_000_000
BATCH_SEGMENTS = BATCH_ROWS // SEGMENT_ROWS
SMALL_ROWS = 1000
SORTED = TableConfig(partition_by=["day(time)"], sort_by=["service", "time"])
LAYOUTS = {
    "plain": (TableConfig(), Layout(), "unordered"),
    "sorted": (SORTED, Layout("time", ("service", "time")), "by day, sorted"),
}
QUIET = MaintenanceConfig(enabled=False)
"""Maintenance does not run here, where it would only compete."""


# --- rows moved ------------------------------------------------------------------------------------------------


class _Moved(NamedTuple):
    seconds: float
    cpu_seconds: float


def moved(bench: Bench) -> Iterator[Figure]:
    """Moves a backlog of full batches, against bare pyarrow and against Spark's own way."""
    data = bench.folder / "data"
    data.mkdir()
    config = Config(
        data_dir=data,
        maintenance=QUIET,
        topics={topic: TopicConfig(table=table) for topic, (table, _, _) in LAYOUTS.items()},
    )
    rows = sample_rows()
    with RunningPipeline(config) as pipeline, BareWriters(bench.folder) as bare:
        for topic, (table, layout, name) in LAYOUTS.items():
            with Backlog(bench.folder / topic, data, topic, rows) as backlog:
                yield from _moved(bench, pipeline, bare, backlog, table, layout, name)


def _moved(
    bench: Bench,
    pipeline: RunningPipeline,
    bare: BareWriters,
    backlog: Backlog,
    table: TableConfig,
    layout: Layout,
    name: str,
) -> Iterator[Figure]:
    batches = 1 if bench.quick else 2
    total = batches * BATCH_ROWS
    spark = SparkAppender(pipeline, f"spark_{backlog.topic}", table)
    ours: list[_Moved] = []
    limits: list[_Moved] = []
    sparks: list[_Moved] = []
    warm_up = 2
    for number in range(warm_up + (2 if bench.quick else 6)):
        bench.say(f"moving {total:,} rows, {name}: round {number + 1}")
        backlog.seal(batches * BATCH_SEGMENTS)
        segments, taken = _move(pipeline, backlog)
        shares = [segments[at : at + BATCH_SEGMENTS] for at in range(0, len(segments), BATCH_SEGMENTS)]
        before = process_usage.cpu_seconds(os.getpid())
        seconds = bare.seconds(shares, layout)
        limit = _Moved(seconds, process_usage.cpu_used(before, process_usage.cpu_seconds(os.getpid())))
        before = process_usage.cpu_seconds(os.getpid())
        seconds = spark.seconds(shares)
        other = _Moved(seconds, process_usage.cpu_used(before, process_usage.cpu_seconds(os.getpid())))
        if number >= warm_up:
            ours.append(taken)
            limits.append(limit)
            sparks.append(other)
    for what, others, named, target in (
        ("", limits, "read, order, write with bare pyarrow", AtLeast(0.6)),
        (" against Spark", sparks, "read.parquet → writeTo.append", AtLeast(1.2)),
    ):
        pairs = list(zip(ours, others, strict=True))
        yield figure(
            f"rows moved, {name}{what}",
            "rows/s",
            [Round(total / a.seconds, total / b.seconds) for a, b in pairs],
            named,
            target,
        )
        yield figure(
            f"CPU for {BATCH_ROWS:,} rows, {name}{what}",
            "ms",
            [Round(a.cpu_seconds / batches * 1000, b.cpu_seconds / batches * 1000) for a, b in pairs],
            named,
        )


def _move(pipeline: RunningPipeline, backlog: Backlog) -> tuple[list[Path], _Moved]:
    """Measures from the beginning of the first batch to the end of the last, as if there had been batches before."""
    newest = pipeline.newest(backlog.topic)
    before = process_usage.cpu_seconds(os.getpid())
    segments = backlog.show()
    pipeline.wait_for(backlog.topic, backlog.end)
    triggers = pipeline.triggers(backlog.topic, newest)
    cpu = process_usage.cpu_used(before, process_usage.cpu_seconds(os.getpid()))
    return segments, _Moved(triggers[-1].ended - triggers[0].started, cpu)


# --- a small batch ---------------------------------------------------------------------------------------------


def small(bench: Bench) -> Iterator[Figure]:
    """Measures from sealed to committed, one small batch at a time, and where the time goes."""
    count = 20 if bench.quick else 40
    for poll in (1000, 100):
        data = bench.folder / f"poll-{poll}"
        settings = PipelineConfig(flush_interval_seconds=0.001, poll_interval_ms=poll)
        config = Config(data_dir=data, log=LogConfig(sync="none", seal=NEVER), pipeline=settings, maintenance=QUIET)
        batch = samples.logs(SMALL_ROWS, rng())
        with Log(config) as log, RunningPipeline(config) as pipeline:
            writer = log.writer(TOPIC, batch.schema)
            sealed: list[float] = []
            committed: list[float] = []
            triggers: dict[int, Trigger] = {}
            for number in range(count + 10):
                if number % 10 == 0:
                    bench.say(f"small batches, poll_interval_ms {poll}: {number} of {count + 10}")
                # Append at any time between two looks at the log, not always right after one.
                time.sleep(number * 0.37 % 1 * poll / 1000)
                writer.append(batch)
                writer.seal()
                sealed.append(time.time())
                pipeline.wait_for(TOPIC, writer.next_offset)
                committed.append(time.time())
                triggers |= {each.number: each for each in pipeline.triggers(TOPIC, -1)}
        yield from _phases(f"sealed to committed, poll {poll} ms", sealed, committed, list(triggers.values()), data)


def _phases(
    name: str, sealed: Sequence[float], committed: Sequence[float], triggers: Sequence[Trigger], data: Path
) -> Iterator[Figure]:
    """Yields the time of each phase. The first ten batches only warm up the others."""
    flushes, requests, ends = (
        [entry.time_ms / 1000 for entry in _entries(data, kind)] for kind in (FlushStart, CommitStart, CommitEnd)
    )
    parts = {
        "all of it": [b - a for a, b in zip(sealed, committed, strict=True)],
        "waiting for the trigger": [b.started - a for a, b in zip(sealed, triggers, strict=True)],
        "Spark's plan, the table": [b - a.started for a, b in zip(triggers, flushes, strict=True)],
        "tasks and manifests": [b - a for a, b in zip(flushes, requests, strict=True)],
        "commit": [b - a for a, b in zip(requests, ends, strict=True)],
    }
    for part, seconds in parts.items():
        ordered = sorted(each * 1000 for each in seconds[10:])
        yield Figure(f"{name}: {part}, p50", "ms", statistics.median(ordered))
        if part == "all of it":
            yield Figure(f"{name}: {part}, p90", "ms", ordered[len(ordered) * 9 // 10])


def _entries(data: Path, kind: type[Entry]) -> list[Entry]:
    return [each.entry for each in history(data).entries if isinstance(each.entry, kind)]
