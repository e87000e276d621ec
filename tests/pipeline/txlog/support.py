"""Small helpers for tests of the transaction log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from frazil.config.sections.pipeline import TransactionLogConfig
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.ranges import Range
from frazil.pipeline.txlog.file import files, slot_folder
from frazil.pipeline.txlog.log import TransactionLog
from tests.log.support import Machine

RANGES = (Range(0, 10, 20, "e0"), Range(3, 0, 5, "e1"))


def opened(folder: Path, machine: Machine | None = None, **settings: Any) -> TransactionLog:
    return TransactionLog.open(folder, TransactionLogConfig(**settings), (machine or Machine()).world)


def crash(log: TransactionLog) -> None:
    """Release a log as a killed process does: without a checkpoint, and with nothing finished."""
    log._closed = True
    log._slot.close()


def start(log: TransactionLog, attempt: str, table: str = "lake.orders", topic: str = "orders") -> None:
    log.flush_start(topic, table, attempt, record_count=15, batch_size=1000, ranges=RANGES)


def send(log: TransactionLog, attempt: str, snapshot: int = 7, table: str = "lake.orders") -> None:
    log.commit_start("orders", table, attempt, CommitRequest(snapshot, snapshot - 1, 1))


def succeed(log: TransactionLog, attempt: str, snapshot: int = 7, table: str = "lake.orders") -> None:
    log.commit_end("orders", table, attempt, success=True, snapshot_id=snapshot)


def newest(folder: Path, slot: int = 0) -> Path:
    return files(slot_folder(folder, slot))[-1]


def attempts(log: TransactionLog) -> list[str]:
    return [each.attempt for each in log.open_attempts()]
