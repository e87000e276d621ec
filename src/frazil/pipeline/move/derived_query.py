"""Runs the Spark SQL query of a derived table over a batch of rows, and writes its result to data files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from frazil.errors import ConfigError, FrazilError, TableSchemaMismatch
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.schema.table_schema import derived_table_schema
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.pipeline.move.task_reports import TaskReport
from frazil.pipeline.move.tasks import TargetTable

VIEW = "batch"
"""The name of the view that a query reads from."""


class DerivedQuery:
    """The query of a derived table. `where` is the key of its setting, for messages."""

    def __init__(self, sql: str, where: str) -> None:
        self._sql = sql
        self._where = where

    def apply(self, rows: DataFrame) -> DataFrame:
        """Returns the result of the query. Each batch has its own session, so views of this name do not collide."""
        rows.createOrReplaceTempView(VIEW)
        return rows.sparkSession.sql(self._sql)

    def schema(self, spark: SparkSession, rows: StructType) -> Schema:
        """Returns the schema of a table for the result. Raises `ConfigError` if the query does not compile."""
        try:
            result = self.apply(spark.newSession().createDataFrame([], rows)).schema
        except (AnalysisException, ParseException) as error:
            raise ConfigError(f"{self._where}: {explain(error)}") from error
        return derived_table_schema(to_arrow_schema(result), self._where)


def explain(error: PySparkException) -> str:
    """Returns what is wrong with a query, and at which position."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[0].split("; line ")[0].rstrip(".") if lines else type(error).__name__
    contexts = error.getQueryContext() or []
    for context in contexts:
        start = context.startIndex()
        if start >= 0:
            return f"{told} (at position {start + 1}: {context.fragment()})"
    position = next((line for line in lines if line.startswith("== SQL") or "(line " in line), "")
    return f"{told} {position}".strip() + "."


def write_rows(target: TargetTable, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a task: it gets rows, writes them and yields a report."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    report = TaskReport(context.taskAttemptId())
    try:
        _write(target, batches, report)
    except FrazilError as error:
        report.failed(error)
    yield report.batch()


def _write(target: TargetTable, batches: Iterator[pa.RecordBatch], report: TaskReport) -> None:
    schema = target.metadata.schema()
    mapper: Mapper | None = None
    with target.writer(report.task) as files:
        for batch in batches:
            mapper = mapper or Mapper(batch.schema, schema)
            mapped = mapper.map(batch, 0, 0)
            if mapped.misfits:
                raise TableSchemaMismatch(f"A row does not fit: {mapped.misfits.rows['error'][0].as_py()}")
            files.write(mapped.batch)
        for file in files.close():
            report.file(file)


def only_needed_rows(rows: DataFrame, starts: dict[int, int]) -> DataFrame:
    """Returns the rows that the table needs: of these partitions alone, from these offsets on."""
    rows = rows.where(rows[PARTITION].isin(sorted(starts)))
    for partition, start in sorted(starts.items()):
        if start:
            rows = rows.where(f"{PARTITION} != {partition} OR {OFFSET} >= {start}")
    return rows
