"""Makes a partition with segments and a WAL of several files, and damages it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.log import layout
from frazil.log.check.inspection import find_schema
from frazil.log.check.repair import Repair, RepairPlan, RepairResult
from frazil.log.check.survey import WalSurvey, survey
from frazil.log.check.verify import Finding, PartitionCheck, TopicCheck
from frazil.log.log import Log
from frazil.log.positions import Origin, Sequence
from frazil.log.reader import PartitionReader

TOPIC = "orders"
ROWS = 4
"""The number of records of one append."""
SEALED = 3
"""The number of appends of `fill` that are sealed."""
APPENDS = 12


def settings(folder: Path) -> Config:
    """Nothing is sealed by itself."""
    return Config(data_dir=folder / "data", log=LogConfig(seal=SealConfig(interval_seconds=3600)))


def wal_directory(folder: Path, partition: int = 0) -> Path:
    return layout.wal_directory(folder / "data", TOPIC, partition)


def batch(number: int) -> pa.RecordBatch:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "text": [f"record {i} " * 5 for i in ids]})


def origin(number: int) -> Origin:
    return Origin(sequence=Sequence("producer", number), request=number.to_bytes(16))


def fill(folder: Path) -> None:
    """Make twelve appends: three are sealed, the others are in three WAL files."""
    for first in range(0, APPENDS, APPENDS // 4):
        with opened(folder) as log:
            writer = log.writer(TOPIC, batch(0).schema)
            for number in range(first, first + APPENDS // 4):
                writer.append(batch(number), origin(number))
            if first == 0:
                writer.seal_all()


@contextmanager
def opened(folder: Path) -> Iterator[Log]:
    log = Log(settings(folder))
    try:
        yield log
    finally:
        log.close(seal=False)


def ids(reader: PartitionReader) -> list[int]:
    start = reader.bounds().start
    return [value for records in reader.read(start) for value in records.batch.column("id").to_pylist()]


def stored(folder: Path, partition: int = 0) -> list[int]:
    with opened(folder) as log:
        return ids(log.reader(TOPIC, partition))


def surveyed(folder: Path) -> WalSurvey:
    with opened(folder) as log:
        return survey(wal_directory(folder), find_schema(log, TOPIC))


def check(folder: Path, partition: int = 0) -> list[Finding]:
    with opened(folder) as log:
        topic = TopicCheck(log.store, TOPIC)
        directory = wal_directory(folder, partition)
        node = (folder / "data/wal/node").read_text().strip()
        partition_check = PartitionCheck(log.store, topic, TOPIC, partition, directory, node, log.world)
        return [*topic.findings, *partition_check.run()]


def problems(folder: Path, partition: int = 0) -> list[Finding]:
    return [found for found in check(folder, partition) if found.kind == "problem"]


@contextmanager
def repairing(folder: Path) -> Iterator[Repair]:
    with (
        opened(folder) as log,
        Repair(log.config, log.store, log.world, TOPIC, 0, find_schema(log, TOPIC)) as repair,
    ):
        yield repair


def repaired(folder: Path) -> tuple[RepairPlan, RepairResult | None]:
    with repairing(folder) as repair:
        plan = repair.plan()
        return plan, None if plan.action == "nothing" else repair.apply(plan)


def flip(path: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
