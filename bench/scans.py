"""Measures scans: planning them with many files, reading with a selective predicate, and the newest rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from bench.figures import AtLeast, Below, Bench, Figure, Round, figure
from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.config.sections.section import MIB
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import base_identifier, create_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.topics.schemas import TopicSchemas
from frazil.scan.interface import ScanRequest
from frazil.scan.predicates.tree import Column, Comparison
from frazil.scan.scanner import TopicScanner
from frazil.store import open_store

TOPIC = "measured"
TIME = "publish_time"
RECORDS = pa.schema(
    [
        ("service", pa.string()),
        (TIME, pa.timestamp("us", "UTC")),
        ("status", pa.int32()),
        ("amount", pa.int64()),
        ("body", pa.string()),
    ]
)
FORGETTING_BYTES = 8 * MIB
"""A scanner with so little memory keeps plans and footers, and hardly a column."""
_FILES_AT_ONCE = 500
_COLUMN = "amount"


def plan(bench: Bench) -> Iterator[Figure]:
    """Plans with 1, 100 and 10,000 files: first, and again when the table has not changed."""
    for files, most in ((1, 1.0), (100, 1.0), (10_000, 5.0)):
        bench.say(f"planning with {files:,} files")
        config, table = _topic(bench.folder / f"plan-{files}")
        (file,) = _written(table, _rows(1000, 0), "one")
        _append(table, [_copy(file, number) for number in range(files)])
        firsts, agains = [], []
        for _ in range(3):
            scanner = TopicScanner(config)
            firsts.append(_seconds(lambda: _plan(scanner)))  # noqa: B023 - called at once
            agains += [_cpu_seconds(lambda: _plan(scanner)) for _ in range(20)]  # noqa: B023
            scanner.close()
        yield Figure(f"planning a scan of {files:,} files, first", "ms", statistics.median(firsts) * 1e3)
        again = statistics.median(agains) * 1e3
        yield Figure(f"planning it again, {files:,} files", "ms", again, target=Below(most, "ms"))


def selective(bench: Bench) -> Iterator[Figure]:
    """Reads one column of rows that few of others match, against bare Polars on the same files."""
    config, table = _topic(bench.folder)
    count, files = (1_000_000, 4) if bench.quick else (5_000_000, 10)
    for number in range(files):
        bench.say(f"writing file {number + 1} of {files}")
        _append(table, _written(table, _rows(count // files, number), str(number)))
    paths = [str(each).removeprefix("file://") for each in bench.folder.rglob("data/*/*.parquet")]
    keeping, forgetting = TopicScanner(config), TopicScanner(config, memory_bytes=FORGETTING_BYTES)
    where = Comparison(Column("status"), "==", 599)
    request = ScanRequest(TOPIC, None, where=where, columns=(_COLUMN,))

    def ours(scanner: TopicScanner) -> int:
        return int(scanner.scan(request).table()[_COLUMN].to_numpy().sum())

    def bare() -> int:
        frame = pl.scan_parquet(paths).filter(pl.col("status") == 599).select(pl.col(_COLUMN).sum())
        return int(frame.collect().item())

    for name, scanner in (("decoded anew", forgetting), ("again", keeping)):
        if ours(scanner) != bare():
            raise AssertionError("a scan and Polars do not agree")
        rounds = bench.speeds(
            f"reading, {name}",
            lambda: count / _seconds(bare),
            lambda: count / _seconds(lambda: ours(scanner)),  # noqa: B023 - called at once
        )
        yield figure(f"one column, selective, {name}", "rows/s", rounds, "Polars", AtLeast(0.7))
    every = ScanRequest(TOPIC, None, columns=(_COLUMN,))
    rounds = bench.speeds(
        "reading all",
        lambda: count / _seconds(lambda: pl.scan_parquet(paths).select(_COLUMN).collect()),
        lambda: count / _seconds(lambda: forgetting.scan(every).table()),
    )
    yield figure("one column, all rows, decoded anew", "rows/s", rounds, "Polars")
    keeping.close()
    forgetting.close()


def newest(bench: Bench) -> Iterator[Figure]:
    """Reads the newest 100 rows of 100 files, against those of a table that has only the last of them."""
    rows = 20_000
    measured: dict[int, TopicScanner] = {}
    for files in (1, 100):
        config, table = _topic(bench.folder / f"newest-{files}")
        found = [file for number in range(files) for file in _written(table, _rows(rows, number), str(number))]
        _append(table, found)
        measured[files] = TopicScanner(config)
    request = ScanRequest(TOPIC, None, order="newest first", limit=100)
    for scanner in measured.values():
        scanner.scan(request).table()
    rounds = [
        Round(ours * 1e3, (before + after) / 2 * 1e3)
        for before, ours, after in bench.alternate(
            "newest", lambda: _several(measured[1], request), lambda: _several(measured[100], request)
        )
    ]
    yield figure("newest 100 rows of 100 files", "ms", rounds, "of 1 file", AtLeast(0.7))
    for scanner in measured.values():
        scanner.close()


def _several(scanner: TopicScanner, request: ScanRequest) -> float:
    return statistics.median(_seconds(lambda: scanner.scan(request).table()) for _ in range(7))


def _plan(scanner: TopicScanner) -> None:
    """Plans a scan of one hour, as far as the choice of files."""
    scanner.scan(ScanRequest(TOPIC, None, start_ns=3_600_000_000_000, end_ns=7_200_000_000_000))


def _topic(folder: Path) -> tuple[Config, Table]:
    config = Config.model_validate({"data_dir": folder})
    TopicSchemas(open_store(config.store, config.data_dir.absolute()), TOPIC).admit(RECORDS)
    table = create_table(
        Lake(config),
        base_identifier(config, TOPIC),
        base_table_schema(RECORDS),
        topic=TOPIC,
        role="base",
        layout=TableLayoutConfig(),
        offsets={0: 0},
        epochs={0: "one"},
    )
    return config, table


def _rows(count: int, hour: int) -> pa.Table:
    random = np.random.default_rng(hour)
    start = hour * 3_600_000_000
    columns = {
        "service": pa.array(np.array([f"service-{n}" for n in range(50)])[random.integers(0, 50, count)]),
        TIME: pa.array(start + np.arange(count) * (3_600_000_000 // count)).cast(RECORDS.field(TIME).type),
        "status": pa.array(random.integers(200, 600, count).astype(np.int32)),
        "amount": pa.array(random.integers(0, 1_000_000, count)),
        "body": pa.array([f"request {n} took {n % 977} ms" for n in range(count)]),
        PARTITION: pa.array(np.zeros(count, np.int32)),
        OFFSET: pa.array(np.arange(hour * count, (hour + 1) * count)),
    }
    return pa.table(columns)


def _written(table: Table, rows: pa.Table, folder: str) -> list[DataFile]:
    with DataFileWriter(table.io, table.metadata, f"{table.metadata.location}/data/{folder}", 0) as writer:
        for batch in rows.cast(arrow_schema(table.schema())).to_batches():
            writer.write(batch)
        return writer.close()


def _copy(file: DataFile, number: int) -> DataFile:
    """Returns an entry for a file that is not there: planning reads none."""
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path.replace("00000-00000", f"00000-{number:05d}"),
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
    )
    found.spec_id = file.spec_id
    return found


def _append(table: Table, files: list[DataFile]) -> None:
    for start in range(0, len(files), _FILES_AT_ONCE):
        table.refresh()
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for file in files[start : start + _FILES_AT_ONCE]:
                append.append_data_file(file)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
