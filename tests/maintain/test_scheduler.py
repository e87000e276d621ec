"""Tests that maintenance runs at its intervals, and that its failures are reported."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from frazil.config.sections.maintenance import ExpiryConfig, MaintenanceConfig
from frazil.errors import IcebergError
from frazil.lake.catalog.lake import Lake
from frazil.maintain.expiry import Expiry
from frazil.maintain.metrics import MaintenanceMetrics
from frazil.maintain.report import OperationResult
from frazil.maintain.scheduler import DEGRADED_AFTER, Scheduler, scheduled
from tests.lake.commit.commits import NAME, make_lake, make_table
from tests.maintain.support import Probe, maintenance_context, move, settings

_PATIENCE = 30.0


def test_operations_run_at_their_intervals_until_told_to_stop(tmp_path: Path) -> None:
    config = settings(tmp_path, expiry={"interval_seconds": 0.05, "keep_last": 1, "max_snapshots": 1})
    lake = Lake(config)
    make_table(lake, {0: 0})
    move(lake, 5)
    registry = CollectorRegistry()
    stopping = threading.Event()
    scheduler = Scheduler(maintenance_context(lake), MaintenanceMetrics(registry))
    thread = threading.Thread(target=scheduler.run, args=(stopping,))
    thread.start()
    try:
        deadline = time.monotonic() + _PATIENCE
        while len(lake.load(NAME).metadata.snapshots) > 1:
            assert time.monotonic() < deadline
    finally:
        stopping.set()
        thread.join(_PATIENCE)
    assert not thread.is_alive()
    labels = {"op": "expire", "table": "frazil.events", "outcome": "done"}
    assert registry.get_sample_value("frazil_maintenance_runs_total", labels) == 1.0
    assert registry.get_sample_value("frazil_maintenance_seconds_count", {"op": "expire"})
    assert scheduler.health().status == "healthy"


def test_only_lasting_trouble_degrades_and_success_ends_it(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    registry = CollectorRegistry()
    well = [False]

    def act() -> OperationResult:
        if not well[0]:
            raise IcebergError("the moon is full")
        return OperationResult("done")

    probe = Probe("expire", act)
    scheduler = Scheduler(maintenance_context(lake), MaintenanceMetrics(registry), [probe])
    stopping = threading.Event()
    for _ in range(DEGRADED_AFTER - 1):
        scheduler.run_once(probe, stopping)
    assert scheduler.health().status == "healthy"
    scheduler.run_once(probe, stopping)
    assert scheduler.health().status == "degraded"
    assert "expire of frazil.events: the moon is full" in scheduler.health().reason
    labels = {"op": "expire", "table": "frazil.events", "outcome": "failed"}
    assert registry.get_sample_value("frazil_maintenance_runs_total", labels) == DEGRADED_AFTER
    well[0] = True
    scheduler.run_once(probe, stopping)
    assert scheduler.health().status == "healthy"


def test_what_nobody_expected_ends_neither_the_run_nor_the_schedule(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    make_table(lake, {0: 0}, ("frazil", "orders"))

    def act() -> OperationResult:
        raise RuntimeError("a bug")

    probe = Probe("expire", act)
    scheduler = Scheduler(maintenance_context(lake), MaintenanceMetrics(CollectorRegistry()), [probe])
    scheduler.run_once(probe, threading.Event())
    assert probe.runs == 2


def test_one_table_in_trouble_does_not_hold_up_the_others(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    table = make_table(lake, {0: 0})
    table.transaction().set_properties({"frazil.version": "9"}).commit_transaction()
    make_table(lake, {0: 0}, ("frazil", "orders"))
    move(lake, 3, name=("frazil", "orders"))
    operation = Expiry(ExpiryConfig(max_age_hours=0, keep_last=1))
    scheduler = Scheduler(maintenance_context(lake), MaintenanceMetrics(CollectorRegistry()), [operation])
    outcomes = {report.table: report.outcome for report in scheduler.run_once(operation, threading.Event())}
    assert outcomes == {"frazil.events": "failed", "frazil.orders": "done"}


def test_what_is_switched_off_does_not_run() -> None:
    assert scheduled(MaintenanceConfig(enabled=False)) == {}
    config = MaintenanceConfig.model_validate({"orphans": {"enabled": False}, "compaction": {"interval_seconds": 7}})
    intervals = scheduled(config)
    assert "orphans" not in intervals
    assert intervals["compact"] == 7
    # A person decides when tables are migrated, because older versions of Frazil cannot use them afterwards.
    assert "migrate" not in intervals
