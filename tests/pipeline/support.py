"""Small helpers for tests of the pipeline."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
from prometheus_client import CollectorRegistry

from frazil.clock import World
from frazil.config.model import Config
from frazil.lake.catalog.lake import Identifier, Lake
from frazil.log.reader import Position
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.ops.breaker import CircuitBreaker
from frazil.pipeline.metrics import PipelineMetrics
from frazil.pipeline.move import task_reports
from frazil.pipeline.move.base_table import BaseSink
from frazil.pipeline.move.batch_planner import BatchPlanner, FlushLimits
from frazil.pipeline.move.context import PipelineContext
from frazil.pipeline.move.flush import Batch, Run
from frazil.pipeline.move.task_reports import WrittenFiles
from frazil.pipeline.move.tasks import MoveJob, move
from frazil.pipeline.txlog.log import TransactionLog
from frazil.store import ObjectStore, open_store
from tests.log.support import TOPIC, Machine, rows, writer


def seal(store: ObjectStore, folder: Path, count: int, partition: int = 0, seed: int = 0) -> None:
    """Appends records to the topic of the log's tests and seals them as one segment."""
    with closing(writer(store, folder, Machine(seed), partition=partition)) as log:
        log.append(rows(log.next_offset, count))
        log.seal_all()


def broken(start: int, count: int) -> pa.RecordBatch:
    """Makes records whose text is not UTF-8, which Arrow accepts and no table does."""
    good = rows(start, count)
    text = pa.array([b"\xff"] * count, pa.binary()).view(pa.string())
    return pa.RecordBatch.from_arrays([good.column(0), text], schema=good.schema)


@contextmanager
def pipeline_context(config: Config, seed: int = 0) -> Iterator[PipelineContext]:
    """Makes the real context of a pipeline, without Spark."""
    world = World(rng=random.Random(seed))
    breaker = config.pipeline.breaker
    with TransactionLog.open(config.data_dir, config.pipeline.txlog, world) as txlog:
        yield PipelineContext(
            config=config,
            lake=Lake(config),
            store=open_store(config.store, config.data_dir),
            txlog=txlog,
            world=world,
            metrics=PipelineMetrics(CollectorRegistry()),
            catalog_breaker=CircuitBreaker("catalog", breaker, world.clock),
            store_breaker=CircuitBreaker("store", breaker, world.clock),
            application="none",
            parallelism=2,
        )


def run_here(planner: BatchPlanner, batch: Batch, after: Callable[[], None] = lambda: None) -> Run:
    """Runs the body of each task in this process, one after the other."""

    def run(job: MoveJob) -> WrittenFiles:
        tasks = planner.tasks(batch.starts, batch.ends)
        reports = [move(job, number, [each]) for number, each in enumerate(tasks)]
        after()
        return task_reports.join_reports(pa.Table.from_batches(reports))

    return run


def move_all(
    context: PipelineContext,
    topic: str = TOPIC,
    batch_rows: int = 1_000_000,
    after_writing: Callable[[], None] = lambda: None,
) -> None:
    """Moves what is sealed, batch by batch, as a mover does.

    `after_writing` is called once, before the first commit.
    """
    waiting = [after_writing]

    def once() -> None:
        if waiting:
            waiting.pop()()

    sink = BaseSink(context, topic)
    starts = sink.open()
    positions = {partition: Position("", offset) for partition, offset in starts.items()}
    planner = BatchPlanner(context.store, topic, positions, FlushLimits(0, batch_rows, 1 << 40), 2, lambda: 0.0)
    while (ends := planner.next_end()) != starts:
        batch = Batch(starts, ends)
        sink.flush_with(batch, run_here(planner, batch, once))
        starts = ends


def found_offsets(lake: Lake, identifier: Identifier) -> Counter[tuple[int, int]]:
    """Counts how often each record is in a table, as PyIceberg alone reads it."""
    table = lake.load(identifier).scan(selected_fields=(PARTITION, OFFSET)).to_arrow()
    return Counter(zip(table[PARTITION].to_pylist(), table[OFFSET].to_pylist(), strict=True))


def expect_once(offsets: Counter[tuple[int, int]], ends: dict[int, int]) -> None:
    """Checks that each record of the log is in the table once."""
    assert offsets == Counter({(partition, offset): 1 for partition, end in ends.items() for offset in range(end)})
