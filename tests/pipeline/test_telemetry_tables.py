"""Tests that the default layout of telemetry tables serves their queries."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from frazil.config.model import Config
from frazil.config.sections.maintenance import CompactionConfig
from frazil.doors.otlp.signals import METRICS
from frazil.formats.otlp import logs, metrics, spans
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.operations import run_operation
from frazil.pipeline.move.base_table import BaseSink
from tests.formats.telemetry.support import NOW, rows_of
from tests.lake.support import local_config
from tests.maintain.support import maintenance_context
from tests.pipeline.support import move_all, pipeline_context

TENANT = "tenant-0"
NAMES = 2
SERIES = 10_000
"""The number of series of each name."""
STEPS = 40
STEP_NS = 15 * 10**9
VALUES = ["timestamp", "timestamp_ns", "value_double", "value_int", "flags"]
"""The columns that PromQL reads of a series that it knows."""
KEYS = ["tenant_id", "prometheus_name", "series_id"]


def settings(folder: Path, **table: Any) -> Config:
    return local_config(folder, otlp={"enabled": True}, topics={"metrics": {"table": table}})


def label(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def scrape(series: int) -> pa.RecordBatch:
    """Makes one point of this many series of each name."""
    request = metrics.REQUEST(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics()])])
    found = request.resource_metrics[0].scope_metrics[0].metrics
    for name in range(NAMES):
        metric = Metric(name=f"measure.{name}")
        for number in range(series):
            labels = [label("host", f"host-{number % 50}"), label("route", f"/api/{number // 50}")]
            metric.gauge.data_points.append(NumberDataPoint(time_unix_nano=NOW, as_double=number, attributes=labels))
        found.append(metric)
    return rows_of(METRICS, request).batch


def later(rows: pa.RecordBatch, steps: int) -> pa.RecordBatch:
    """Returns a later scrape."""
    place = rows.schema.get_field_index("timestamp")
    times = pc.add(rows.column(place).view(pa.int64()), steps * STEP_NS).view(rows.schema.field(place).type)
    return rows.set_column(place, rows.schema.field(place), times)


def move(config: Config, first: pa.RecordBatch, scrapes: int, batches: int = 1) -> Table:
    """Returns the table with all scrapes, moved in this many batches."""
    with closing(Log(config)) as log, pipeline_context(config) as context:
        writer = log.writer(metrics.TOPIC, metrics.SCHEMA)
        for step in range(scrapes):
            writer.append(later(first, step))
            if (step + 1) % (scrapes // batches) == 0:
                writer.seal_all()
                if batches > 1:
                    move_all(context, metrics.TOPIC)
        move_all(context, metrics.TOPIC)
    return Lake(config).load(base_identifier(config, metrics.TOPIC))


def paths(table: Table) -> list[str]:
    files = [task.file.file_path for task in table.scan().plan_files()]
    return [path.removeprefix("file://").removeprefix("file:") for path in files]


class Chunk(NamedTuple):
    """A column of a row group."""

    group: int
    column: str
    start: int
    end: int


def chunks(path: str) -> Iterator[Chunk]:
    footer = pq.read_metadata(path)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(footer.num_columns):
            chunk = group.column(place)
            start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            yield Chunk(number, chunk.path_in_schema.split(".")[0], start, start + chunk.total_compressed_size)


class Watched(io.FileIO):
    """A file that records what is read of it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.pieces: list[tuple[int, int]] = []

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        found = super().read(size) or b""
        self.pieces.append((start, start + len(found)))
        return found

    def has_read(self, chunk: Chunk) -> bool:
        return any(start < chunk.end and end > chunk.start for start, end in self.pieces)


def query(path: str, wanted: pc.Expression) -> tuple[pa.Table, list[Chunk]]:
    """Returns the rows that match in a file, and the column chunks that were read for it."""
    options = ds.ParquetFragmentScanOptions(pre_buffer=False)
    with Watched(path) as file, pa.PythonFile(file, "r") as source:
        fragment = ds.ParquetFileFormat(default_fragment_scan_options=options).make_fragment(source)
        found = fragment.to_table(columns=[*VALUES, *KEYS], filter=wanted)
        return found, [chunk for chunk in chunks(path) if file.has_read(chunk)]


@pytest.mark.parametrize(
    ("topic", "schema", "sort"),
    [
        ("logs", logs.SCHEMA, ["service_name", "timestamp"]),
        ("spans", spans.SCHEMA, ["trace_id", "timestamp"]),
        ("metrics", metrics.SCHEMA, ["prometheus_name", "series_id", "timestamp"]),
    ],
)
def test_tables_are_by_tenant_and_day_and_in_the_order_of_their_queries(
    tmp_path: Path, topic: str, schema: pa.Schema, sort: list[str]
) -> None:
    config = settings(tmp_path)
    with closing(Log(config)) as log, pipeline_context(config) as context:
        log.writer(topic, schema)
        BaseSink(context, topic).open()
        table = context.lake.load(base_identifier(config, topic))
    column = table.schema().find_column_name
    found = [(column(field.source_id), str(field.transform)) for field in table.spec().fields]
    assert found == [("tenant_id", "identity"), ("timestamp", "day")]
    order = table.sort_order()
    assert [column(field.source_id) for field in order.fields] == sort
    assert {str(field).split(" ", 1)[1] for field in order.fields} == {"ASC NULLS FIRST"}


def test_properties_that_are_given_leave_those_of_the_row_groups(tmp_path: Path) -> None:
    given = settings(tmp_path, properties={"write.parquet.page-row-limit": "500"}).topic("metrics").table
    default = settings(tmp_path).topic("metrics").table
    assert default.properties
    assert given.properties == {**default.properties, "write.parquet.page-row-limit": "500"}
    assert given.sort_by == default.sort_by


def test_one_series_is_read_from_few_row_groups_and_without_labels(tmp_path: Path) -> None:
    first = scrape(SERIES)
    files = paths(move(settings(tmp_path), first, STEPS))
    footers = [pq.read_metadata(path) for path in files]
    assert sum(footer.num_rows for footer in footers) == len(first) * STEPS
    assert sum(footer.num_row_groups >= 2 for footer in footers) >= len(files) - 1, "the last one has what is left"

    last = pc.max(pa.concat_tables(pq.read_table(path, columns=["timestamp"]) for path in files)["timestamp"])
    touched = []
    for place in range(0, len(first), len(first) // 7):
        wanted = (pc.field("tenant_id") == TENANT) & (pc.field("timestamp") < last)
        for name in ("prometheus_name", "series_id"):
            wanted &= pc.field(name) == first[name][place]
        times: list[Any] = []
        for path, footer in zip(files, footers, strict=True):
            found, read = query(path, wanted)
            assert set(found["value_double"].to_pylist()) <= {float(place % SERIES)}
            # The last column of a small file is read together with its footer.
            assert {chunk.column for chunk in read} <= {*VALUES, *KEYS, "_offset"}
            times += found["timestamp"].to_pylist()
            if footer.num_row_groups >= 2:
                touched.append(len({chunk.group for chunk in read if chunk.column in VALUES}))
        assert len(set(times)) == len(times) == STEPS - 1
    # These are its own row groups. A few more have the end of one name and the beginning of the next, with all ids.
    assert max(touched) <= 2, touched
    assert sum(touched) <= 1.6 * len(touched), touched


def test_compaction_keeps_row_groups_small(tmp_path: Path, spark_for: Callable[[Config], SparkSession]) -> None:
    """Spark counts bytes before compression. Compressed, all these points would be one row group."""
    config = settings(
        tmp_path,
        properties={"write.parquet.row-group-size-bytes": str(1024 * 1024), "write.parquet.page-row-limit": "500"},
    )
    table = move(config, scrape(500), scrapes=20, batches=5)
    assert len(paths(table)) == 5
    lake = Lake(config)
    shop = maintenance_context(lake, spark=spark_for(config))
    run_operation(shop, Compaction(CompactionConfig()), MaintainedTable(table.name(), metrics.TOPIC, "base"))
    (path,) = paths(lake.load(table.name()))
    footer = pq.read_metadata(path)
    assert footer.num_rows == NAMES * 500 * 20
    assert footer.num_row_groups >= 4
    assert sum(chunk.end - chunk.start for chunk in chunks(path)) < 1024 * 1024
