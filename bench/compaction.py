"""Measures compaction of sorted files against Spark's `rewrite_data_files` with the same order, and bare PyArrow."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from bench import samples
from bench.figures import AtLeast, Bench, Figure, Round, figure
from bench.spark_append import PROPERTIES
from frazil.clock import World
from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import attempt_folder, new_attempt
from frazil.lake.commit.commit import send
from frazil.lake.commit.proposals import propose
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import create_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.compaction.spark_rewrite import rewrite_with_spark
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.rewrite.rewriting import FileGroup, RewriteJob, rewrite
from frazil.pipeline.spark.session import start_session, stop_session
from frazil.scan.table.data_files import TableFile
from frazil.store import open_store

_FILES = 12
_SORT = ("service", "time")
_MIN_OF_SPARK = 1.5
_MIN_OF_PYARROW = 0.6


def compaction(bench: Bench) -> Iterator[Figure]:
    """Merges twelve files of log lines, each sorted by service and time, as one task and as an operation."""
    each = 20_000 if bench.quick else 150_000
    config = Config(data_dir=bench.folder)
    lake = Lake(config)
    batches = [_rows(each, number) for number in range(_FILES)]
    rounds = 3 if bench.quick else 5
    table = _table(lake, "tasks")
    files = _written(lake, table, batches)
    yield _against_pyarrow(bench, table, files, rounds)
    yield _against_spark(bench, config, lake, batches, rounds)


def _against_pyarrow(bench: Bench, table: Table, files: Sequence[DataFile], rounds: int) -> Figure:
    group = FileGroup(tuple(TableFile(file, (), ()) for file in files))
    paths = [file.file_path.removeprefix("file://") for file in files]
    rows, cores = sum(file.record_count for file in files), pa.cpu_count()

    def ours() -> float:
        job = RewriteJob.of(table, new_attempt(time.time_ns() // 1_000_000, random.Random()))
        started = time.perf_counter()
        rewrite(job, group, "00000")
        return rows / (time.perf_counter() - started)

    def bare() -> float:
        started = time.perf_counter()
        whole = pa.concat_tables(pq.read_table(path, partitioning=None) for path in paths)
        whole = whole.sort_by([(column, "ascending") for column in _SORT])
        pq.write_table(whole, bench.folder / "bare.parquet", compression="zstd", compression_level=3)
        return rows / (time.perf_counter() - started)

    try:
        # A task has one core.
        pa.set_cpu_count(1)
        found = [Round(mine, (one + two) / 2) for one, mine, two in bench.alternate("one task", bare, ours, rounds)]
    finally:
        pa.set_cpu_count(cores)
    target = AtLeast(_MIN_OF_PYARROW)
    return figure("rows compacted by one task", "rows/s", found, "bare PyArrow, one core", target)


def _against_spark(
    bench: Bench, config: Config, lake: Lake, batches: Sequence[pa.RecordBatch], rounds: int
) -> Figure:
    spark = start_session(config, name="bench-compaction")
    settings = CompactionConfig(min_input_files=2)
    context = MaintenanceContext(config, lake, open_store(config.store, config.data_dir), World(), lambda: spark)
    rows, made = sum(map(len, batches)), iter(range(1000))

    def prepared() -> Table:
        table = _table(lake, f"table_{next(made)}")
        _written(lake, table, batches)
        return lake.load(table.name())

    def ours() -> float:
        table = prepared()
        started = time.perf_counter()
        Compaction(settings).run(context, table, dry_run=False)
        return rows / (time.perf_counter() - started)

    def theirs() -> float:
        table = prepared()
        started = time.perf_counter()
        rewrite_with_spark(context, table, settings)
        return rows / (time.perf_counter() - started)

    try:
        theirs()
        ours()
        found = [Round(mine, (one + two) / 2) for one, mine, two in bench.alternate("Spark", theirs, ours, rounds)]
    finally:
        stop_session()
    target = AtLeast(_MIN_OF_SPARK)
    return figure("rows compacted on half of the cores", "rows/s", found, "rewrite_data_files, all cores", target)


def _rows(count: int, number: int) -> pa.RecordBatch:
    """Returns the rows of a batch. Its times follow those of the batch before, as they do in a stream."""
    rows = samples.logs(count, random.Random(number))
    times = rows["time"].cast(pa.int64())
    later = pc.add(times, number * (pc.max(times).as_py() - pc.min(times).as_py()))
    rows = rows.set_column(0, rows.schema.field("time"), later.cast(rows["time"].type))
    places = {
        PARTITION: pa.array([0] * count, pa.int32()),
        OFFSET: pa.array(range(number * count, (number + 1) * count), pa.int64()),
    }
    for name, values in places.items():
        rows = rows.append_column(name, values)
    return rows


def _table(lake: Lake, name: str) -> Table:
    schema = pa.schema([field for field in _rows(1, 0).schema if field.name not in (PARTITION, OFFSET)])
    layout = TableLayoutConfig(sort_by=list(_SORT), properties=PROPERTIES)
    return create_table(
        lake,
        ("frazil", name),
        base_table_schema(schema),
        topic=name,
        role="base",
        layout=layout,
        offsets={0: 0},
        epochs={0: "one"},
    )


def _written(lake: Lake, table: Table, batches: Sequence[pa.RecordBatch]) -> list[DataFile]:
    """Writes and commits a sorted file for each batch, as the mover does."""
    files: list[DataFile] = []
    for number, rows in enumerate(batches):
        attempt = new_attempt(time.time_ns() // 1_000_000, random.Random(number))
        with DataFileWriter(table.io, table.metadata, attempt_folder(table.metadata.location, attempt), 0) as writer:
            writer.write(rows)
            files += writer.close()
    send(lake, table, propose(table, files, {}, {}))
    return files
