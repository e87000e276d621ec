"""Rewrites groups of files in Spark's tasks, or in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import FrazilError
from frazil.lake.write.data_file_codec import decode_data_file, encode_data_file
from frazil.maintain.rewrite.rewriting import FileGroup, RewriteJob, Rewritten, rewrite
from frazil.pipeline.move.task_reports import error_by_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_SCHEMA = "kind STRING, payload BINARY"
_SCHEMA = pa.schema([("kind", pa.string()), ("payload", pa.binary())])

Rewriter = Callable[[RewriteJob, Sequence[FileGroup]], Rewritten]
"""A function that rewrites groups and returns the new files."""


def rewrite_here(job: RewriteJob, groups: Sequence[FileGroup]) -> Rewritten:
    """Rewrites groups in this process, one after the other."""
    return Rewritten.joined(rewrite(job, group, f"{number:05d}") for number, group in enumerate(groups))


def rewrite_in_spark(spark: Callable[[], SparkSession], job: RewriteJob, groups: Sequence[FileGroup]) -> Rewritten:
    """Rewrites groups in tasks, on half of the cores: the others are for those who move new records."""
    session = spark()
    tasks = max(1, min(len(groups), session.sparkContext.defaultParallelism // 2))
    work = [list(groups[task::tasks]) for task in range(tasks)]
    numbers = session.range(0, tasks, 1, tasks)
    return _join(numbers.mapInArrow(partial(_run, job, work), _SPARK_SCHEMA).toArrow())


def _run(job: RewriteJob, work: list[list[FileGroup]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    reports: list[tuple[str, bytes]] = []
    try:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for number, group in enumerate(work[task]):
                    # The id is unique within the application, so that a task that is tried again writes other files.
                    written = rewrite(job, group, f"{context.taskAttemptId():05d}-{number:05d}")
                    reports += [("file", encode_data_file(file)) for file in written.files]
                    reports += [("lost", json.dumps(pair).encode()) for pair in written.lost.items()]
    except FrazilError as error:
        reports.append(("error", json.dumps([type(error).__name__, str(error)]).encode()))
    columns = list(zip(*reports, strict=True)) if reports else [(), ()]
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _join(table: pa.Table) -> Rewritten:
    """Returns the files of all tasks. Raises the error of a task that failed."""
    rows = table.to_pylist()
    for row in rows:
        if row["kind"] == "error":
            kind, message = json.loads(row["payload"])
            raise error_by_name(kind, message) or FrazilError(f"{kind}: {message}")
    files = tuple(decode_data_file(row["payload"]) for row in rows if row["kind"] == "file")
    losses = [json.loads(row["payload"]) for row in rows if row["kind"] == "lost"]
    return Rewritten.joined([Rewritten(files, {}), *(Rewritten((), {at: offset}) for at, offset in losses)])
