"""Measures what the checksums of data files cost: to write them, to verify what is read, to verify a whole file."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import pyarrow as reading
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from bench import samples
from bench.figures import AtLeast, Bench, Figure, figure
from bench.log import rng
from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.checksums import verifying_io
from frazil.lake.checksums.verification import verify_file
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import base_identifier, create_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.lake.write.parquet import ParquetFileWriter, ParquetOptions, _worth_a_dictionary
from frazil.lake.write.statistics import leaf_columns
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.table_files import FileReader


def checksums(bench: Bench) -> Iterator[Figure]:
    """Uses one file of log records in the page cache.

    Processor time is measured, because other processes disturb it less.
    """
    rows = _rows(50_000 if bench.quick else 200_000)
    table = _table(bench, rows.schema)
    rows = rows.cast(arrow_schema(table.schema()))
    task = FileScanTask(_written(table, rows))
    # Opening a file has a fixed cost, which counts more when little of it is read.
    for name, columns, least in (("all columns", rows.column_names, 0.95), ("one column", ["status"], 0.85)):
        wanted = table.schema().select(*columns)
        rounds = bench.speeds(
            f"reading {name}",
            lambda: _cost(rows, lambda: _read_bare(table, task, wanted)),  # noqa: B023 - called at once
            lambda: _cost(rows, lambda: _read(table, task, wanted)),  # noqa: B023
        )
        yield figure(f"data file read and verified, {name}", "CPU s/M", rounds, "not verified", AtLeast(least))
    rounds = bench.speeds(
        "writing",
        lambda: _cost(rows, lambda: _write_bare(table, rows)),
        lambda: _cost(rows, lambda: _write(table, rows)),
    )
    yield figure("data file written with checksums", "CPU s/M", rounds, "without", AtLeast(0.95))
    rounds = bench.speeds(
        "verifying",
        lambda: _cost(rows, lambda: _read_bare(table, task, table.schema())),
        lambda: _cost(rows, lambda: verify_file(table.io, task.file)),
    )
    yield figure("whole data file verified", "CPU s/M", rounds, "read and decoded")


def _rows(count: int) -> pa.Table:
    batch = samples.logs(count, rng())
    batch = batch.set_column(0, "time", batch.column("time").cast(pa.timestamp("us", "UTC")))
    batch = batch.append_column(PARTITION, pa.array(np.zeros(count, np.int32)))
    return pa.Table.from_batches([batch.append_column(OFFSET, pa.array(np.arange(count)))])


def _table(bench: Bench, schema: pa.Schema) -> Table:
    config = Config.model_validate({"data_dir": bench.folder})
    records = pa.schema([field for field in schema if field.name not in (PARTITION, OFFSET)])
    return create_table(
        Lake(config),
        base_identifier(config, "logs"),
        base_table_schema(records),
        topic="logs",
        role="base",
        layout=TableLayoutConfig(),
        offsets={0: 0},
        epochs={0: "one"},
    )


def _written(table: Table, rows: pa.Table) -> DataFile:
    with DataFileWriter(table.io, table.metadata, f"{table.metadata.location}/data/read", 0) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        (file,) = writer.close()
    return file


def _write(table: Table, rows: pa.Table) -> None:
    properties = table.metadata.properties
    file = ParquetFileWriter(
        table.io, _new(table), rows, leaf_columns(table.schema(), properties), ParquetOptions.of(properties)
    )
    file.write(rows)
    file.close()


def _write_bare(table: Table, rows: pa.Table) -> None:
    """Write the same file without any checksum."""
    known = {**ParquetOptions.of(table.metadata.properties).arguments, "write_page_checksum": False}
    with (
        table.io.new_output(_new(table)).create() as sink,
        pq.ParquetWriter(sink, rows.schema, use_dictionary=_worth_a_dictionary(rows), **known) as writer,
    ):
        writer.write_table(rows, row_group_size=len(rows))


def _new(table: Table) -> str:
    return f"{table.metadata.location}/data/{uuid.uuid4()}.parquet"


def _read(table: Table, task: FileScanTask, wanted: Schema) -> None:
    for _ in FileReader.of(table, None).read([task], wanted):
        pass


def _read_bare(table: Table, task: FileScanTask, wanted: Schema) -> None:
    """Read the same columns without verifying any checksum."""
    with (
        patch.object(reading, "_get_file_format", reading._get_file_format.__wrapped__),
        patch.object(verifying_io, "check_footer", lambda stream: None),
    ):
        _read(table, task, wanted)


def _cost(rows: pa.Table, work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e6 / len(rows)
