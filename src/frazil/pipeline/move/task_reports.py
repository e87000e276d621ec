"""Reports of tasks to the driver: the files they wrote, how many rows did not fit, and their errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.manifest import DataFile

from frazil import errors
from frazil.errors import FrazilError, SparkFailed
from frazil.lake.commit.ranges import Range
from frazil.lake.write.data_file_codec import decode_data_file, encode_data_file

SCHEMA = "kind STRING, task BIGINT, partition INT, end BIGINT, rows BIGINT, payload BINARY"
_ARROW = pa.schema(
    [
        ("kind", pa.string()),
        ("task", pa.int64()),
        ("partition", pa.int32()),
        ("end", pa.int64()),
        ("rows", pa.int64()),
        ("payload", pa.binary()),
    ]
)


@dataclass
class TaskReport:
    """The report of one task. Each fact is a row."""

    task: int
    _rows: list[tuple[str, int, int, int, int, bytes]] = field(default_factory=list)

    def file(self, file: DataFile) -> None:
        self._say("file", rows=file.record_count, payload=encode_data_file(file))

    def dead_letters(self, file: DataFile) -> None:
        self._say("dead-letters", rows=file.record_count, payload=encode_data_file(file))

    def misfits(self, rows: int, example: str) -> None:
        """Reports rows that did not fit while there is no dead-letter table to write them to."""
        self._say("misfits", rows=rows, payload=example.encode())

    def wants(self, rows: pa.Schema) -> None:
        """Reports that the table has to change before it can take rows of this schema. Nothing was written then."""
        self._say("wants", payload=rows.serialize().to_pybytes())

    def range(self, partition: int, end: int, epoch: str, rows: int) -> None:
        self._say("range", partition=partition, end=end, rows=rows, payload=epoch.encode())

    def failed(self, error: FrazilError) -> None:
        self._say("error", payload=json.dumps([type(error).__name__, str(error)]).encode())

    def _say(self, kind: str, *, partition: int = 0, end: int = 0, rows: int = 0, payload: bytes = b"") -> None:
        self._rows.append((kind, self.task, partition, end, rows, payload))

    def batch(self) -> pa.RecordBatch:
        columns = zip(*self._rows, strict=True) if self._rows else ([] for _ in _ARROW)
        return pa.RecordBatch.from_arrays(
            [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)], schema=_ARROW
        )


@dataclass(frozen=True)
class WrittenFiles:
    """The joined reports of all tasks of an attempt."""

    files: tuple[DataFile, ...]
    dead_letters: tuple[DataFile, ...]
    misfits: int
    """This is how many rows did not fit and were not written anywhere."""
    example: str
    """The reason why the first of them did not fit."""
    tasks: tuple[int, ...]
    epochs: dict[int, str]
    """The epoch of each partition's last record."""
    records: Mapping[int, int]
    """This is how many records of each partition were read."""
    wanted: tuple[pa.Schema, ...] = ()
    """The schemas of rows for which the table has to change first."""

    @property
    def dead_rows(self) -> int:
        return sum(file.record_count for file in self.dead_letters)

    def check_complete(self, ranges: Iterable[Range]) -> None:
        """Raises `SparkFailed` if the tasks read more or fewer records than these ranges have.

        A commit moves the table's offsets over exactly these ranges, so anything else would be lost or there twice.
        """
        needed = {each.partition: each.rows for each in ranges}
        for partition in sorted(needed.keys() | self.records.keys()):
            read, rows = self.records.get(partition, 0), needed.get(partition, 0)
            if read != rows:
                raise SparkFailed(
                    f"The tasks read {read} records of partition {partition} where the table needs {rows}. Nothing "
                    f"was committed; the batch is planned again."
                )


def join_reports(table: pa.Table) -> WrittenFiles:
    """Joins the reports of all tasks. Raises the error of a task that failed."""
    rows = table.to_pylist()
    for row in rows:
        if row["kind"] == "error":
            raise _error(*json.loads(row["payload"]))
    misfits = [row for row in rows if row["kind"] == "misfits"]
    ends = sorted((row["partition"], row["end"], row["payload"].decode()) for row in rows if row["kind"] == "range")
    records: Counter[int] = Counter()
    for row in rows:
        if row["kind"] == "range":
            records[row["partition"]] += row["rows"]
    return WrittenFiles(
        files=tuple(decode_data_file(row["payload"]) for row in rows if row["kind"] == "file"),
        dead_letters=tuple(decode_data_file(row["payload"]) for row in rows if row["kind"] == "dead-letters"),
        misfits=sum(row["rows"] for row in misfits),
        example=misfits[0]["payload"].decode() if misfits else "",
        tasks=tuple(sorted({row["task"] for row in rows})),
        epochs={partition: epoch for partition, _, epoch in ends},
        records=records,
        wanted=tuple(dict.fromkeys(_schema(row["payload"]) for row in rows if row["kind"] == "wants")),
    )


def _schema(payload: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(payload))


def _error(kind: str, message: str) -> FrazilError:
    """Returns the error of a task with its original class, if that is known."""
    return error_by_name(kind, message) or FrazilError(f"{kind}: {message}")


def error_by_name(kind: str, message: str) -> FrazilError | None:
    """Returns the Frazil error with this class name, or None if there is no such class."""
    known = getattr(errors, kind, None)
    return known(message) if isinstance(known, type) and issubclass(known, FrazilError) else None
