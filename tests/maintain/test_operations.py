"""Tests that the outcome of an operation is logged if there was a reason to run it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from frazil.errors import CasConflict, IcebergError
from frazil.lake.catalog.lake import Lake
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.operations import run_operation
from frazil.maintain.report import Later, NotOurs, OperationResult
from frazil.maintain.scheduler import Scheduler
from frazil.pipeline.txlog.entries import MaintenanceOp
from frazil.pipeline.txlog.log import TransactionLog
from frazil.pipeline.txlog.show import history
from tests.lake.commit.commits import make_lake, make_table
from tests.maintain.support import EVENTS, Probe, maintenance_context


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = make_lake(tmp_path)
    make_table(made, {0: 0})
    return made


@pytest.fixture
def txlog(lake: Lake) -> Iterator[TransactionLog]:
    with TransactionLog.open(lake.config.data_dir, lake.config.pipeline.txlog) as opened:
        yield opened


def raising(error: Exception) -> Callable[[], OperationResult]:
    def act() -> OperationResult:
        raise error

    return act


def written(lake: Lake) -> list[tuple[str, str]]:
    entries = (told.entry for told in history(lake.config.data_dir).entries)
    return [
        (entry.details["outcome"], entry.details.get("note", ""))
        for entry in entries
        if isinstance(entry, MaintenanceOp)
    ]


def test_what_was_done_or_tried_in_vain_is_written_down(lake: Lake, txlog: TransactionLog) -> None:
    context = maintenance_context(lake, txlog=txlog)
    acts = [
        lambda: OperationResult("done", note="swept"),
        lambda: OperationResult("nothing"),
        raising(NotOurs("somebody else's")),
        raising(Later("being written to")),
        raising(CasConflict("changed meanwhile")),
        raising(IcebergError("the moon is full")),
    ]
    for act in acts:
        run_operation(context, Probe("expire", act), EVENTS)
    run_operation(context, Probe("expire", raising(IcebergError("only asked"))), EVENTS, dry_run=True)
    assert written(lake) == [
        ("done", "swept"),
        ("later", "being written to"),
        ("later", "changed meanwhile"),
        ("failed", "the moon is full"),
    ]


def test_what_nobody_expected_is_written_down_too(lake: Lake, txlog: TransactionLog) -> None:
    probe = Probe("expire", raising(RuntimeError("a bug")))
    scheduler = Scheduler(maintenance_context(lake, txlog=txlog), MaintenanceMetrics(CollectorRegistry()), [probe])
    scheduler.run_once(probe, threading.Event())
    assert written(lake) == [("failed", "RuntimeError: a bug")]
