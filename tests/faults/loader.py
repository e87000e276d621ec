"""Fills a log while other processes fail, and checks in the end with independent readers what is in the tables.

The content of a record follows from its position in the log, so every value can be checked, not only the number of
records.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

import duckdb
import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import TableNotFound
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.mapping.misfits import row_from_ipc
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.log.log import Log
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.files import normalized_path as placed

TOPICS = ("orders", "visits")
PARTITIONS = (0, 1)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
NOTE = pa.field("note", pa.string())
LARGEST = 120
UNFIT = 0.1
"""The part of the batches that no table can take."""

Place = tuple[str, int]
"""A topic and a partition."""


def identity(partition: int, offset: int) -> int:
    return partition * 1_000_000_000 + offset


def text(topic: str, partition: int, offset: int) -> str:
    return f"{topic}/{partition}/{offset}"


class Loader:
    """Appends and seals, from a thread of its own between `start` and `stop`, or when `fill` is called."""

    def __init__(self, config: Config, seed: int, topics: Iterable[str] = TOPICS, pause: float = 0.05) -> None:
        self.config = config
        self.topics = tuple(topics)
        self.ends: dict[Place, int] = {(topic, each): 0 for topic in self.topics for each in PARTITIONS}
        self.unfit: set[tuple[str, int, int]] = set()
        self.wide_from: dict[Place, int] = {}
        """The offset of each partition from which on records have a note."""
        self._log = Log(config)
        self._chance = random.Random(seed)
        self._pause = pause
        self._wide: set[str] = set()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._log.close()

    @property
    def rows(self) -> int:
        return sum(self.ends.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops and seals the rest. All records that exist now must be in the tables in the end."""
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        self._seal()

    def widen(self, topic: str) -> None:
        """Makes records of the topic have one more column from now on."""
        self._wide.add(topic)

    def fill(self, batches: int) -> None:
        for _ in range(batches):
            self._append(self._chance.choice(list(self.ends)))
        self._seal()

    def offsets(self, topic: str) -> dict[int, int]:
        return {partition: end for (name, partition), end in self.ends.items() if name == topic and end}

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._pause):
                for place in self.ends:
                    self._append(place)
                if self._chance.random() < 0.3:
                    self._seal()
        except BaseException as failure:  # noqa: BLE001 - `stop` raises it
            self._failure = failure

    def _seal(self) -> None:
        for writer in self._log.writers:
            writer.seal_all()

    def _append(self, place: Place) -> None:
        topic, partition = place
        writer = self._log.writer(topic, SCHEMA, partition=partition)
        start = self.ends[place]
        fits = self._chance.random() >= UNFIT
        offsets = range(start, start + (self._chance.randint(1, LARGEST) if fits else self._chance.randint(1, 3)))
        wide = topic in self._wide
        batch = _records(topic, partition, offsets, wide=wide, fits=fits)
        if wide:
            self.wide_from.setdefault(place, start)
        if not fits:
            self.unfit |= {(topic, partition, offset) for offset in offsets}
        assert writer.append(batch).offset == start
        self.ends[place] = offsets.stop

    # --- the expected content -----------------------------------------------------------------------------

    def fitting(self, topic: str) -> list[dict[str, Any]]:
        rows = []
        for place, end in sorted(self.ends.items()):
            if place[0] == topic:
                wide = self.wide_from.get(place, end)
                rows += [self._row(topic, place[1], offset, offset >= wide) for offset in range(end)]
        return [row for row in rows if (topic, row[PARTITION], row[OFFSET]) not in self.unfit]

    def _row(self, topic: str, partition: int, offset: int, wide: bool) -> dict[str, Any]:
        row: dict[str, Any] = {"id": identity(partition, offset), "text": text(topic, partition, offset)}
        if topic in {name for name, _ in self.wide_from}:
            row["note"] = f"note {offset}" if wide else None
        return {**row, PARTITION: partition, OFFSET: offset}


def _records(topic: str, partition: int, offsets: range, *, wide: bool, fits: bool) -> pa.RecordBatch:
    texts = [text(topic, partition, offset).encode() if fits else b"\xff" for offset in offsets]
    columns = [
        pa.array([identity(partition, offset) for offset in offsets], pa.int64()),
        # Arrow accepts text that is not UTF-8, and no table does.
        pa.array(texts, pa.binary()).view(pa.string()),
    ]
    if wide:
        columns.append(pa.array([f"note {offset}" for offset in offsets]))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.append(NOTE) if wide else SCHEMA)


def moved(config: Config, loader: Loader) -> bool:
    """Returns whether every table has everything that is in the log."""
    lake = Lake(config)
    try:
        tables = {
            topic: lake.load(base_identifier(config, topic)) for topic in loader.topics if loader.offsets(topic)
        }
        return all(TableState.of(table).offsets == loader.offsets(topic) for topic, table in tables.items())
    except TableNotFound:
        return False
    finally:
        lake.close()


def check_everything(config: Config, loader: Loader) -> None:
    """Checks that each record is in its base table or its dead-letter table, once and with its values.

    The offsets of the tables must be at the end of the log.
    """
    lake = Lake(config)
    try:
        for topic in loader.topics:
            base = lake.load(base_identifier(config, topic))
            expected = loader.fitting(topic)
            compare(base.scan().to_arrow().to_pylist(), expected)
            if base.location().startswith("file:"):
                compare(read_by_duckdb(base), expected)
            assert TableState.of(base).offsets == loader.offsets(topic)
            unfit = {(partition, offset) for name, partition, offset in loader.unfit if name == topic}
            check_letters(lake, config, topic, unfit)
    finally:
        lake.close()


def compare(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    found = sorted(found, key=lambda row: (row[PARTITION], row[OFFSET]))
    if found == expected:
        return
    places = [(row[PARTITION], row[OFFSET]) for row in found]
    wanted = {(row[PARTITION], row[OFFSET]) for row in expected}
    twice = sorted({one for one, next_one in pairwise(places) if one == next_one})
    lost, extra = sorted(wanted - set(places)), sorted(set(places) - wanted)
    wrong = [row for row, want in zip(found, expected, strict=False) if row != want][:3]
    raise AssertionError(f"lost {lost[:20]}, twice {twice[:20]}, extra {extra[:20]}, first that differ {wrong}")


def read_by_duckdb(table: Table) -> list[dict[str, Any]]:
    """Reads the rows of a table's files with a reader that shares no code with the writer."""
    tasks = list(table.scan().plan_files())
    assert not any(task.delete_files for task in tasks)
    paths = [str(task.file.file_path).removeprefix("file://") for task in tasks]
    with duckdb.connect() as connection:
        rows: list[dict[str, Any]] = connection.read_parquet(paths, union_by_name=True).to_arrow_table().to_pylist()
        return rows


def check_letters(lake: Lake, config: Config, topic: str, unfit: set[tuple[int, int]]) -> None:
    try:
        letters = lake.load(dead_letter_identifier(config, topic)).scan().to_arrow().to_pylist()
    except TableNotFound:
        letters = []
    places = sorted((letter[PARTITION], letter[OFFSET]) for letter in letters)
    assert places == sorted(unfit)
    for letter in letters:
        kept = row_from_ipc(letter["raw"]).column("id").to_pylist()
        assert kept == [identity(letter[PARTITION], letter[OFFSET])]
        assert (letter["topic"], "'text'" in letter["error"]) == (topic, True)


def reachable(table: Table) -> set[str]:
    """Returns the paths of all files that the table's metadata refers to."""
    metadata = table.metadata
    found = {table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {placed(path) for path in found}
