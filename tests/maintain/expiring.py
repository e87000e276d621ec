"""What tests beside this share."""

from __future__ import annotations

import time

from frazil.config.sections.maintenance import ExpiryConfig
from frazil.lake.catalog.lake import Lake
from frazil.maintain.expiry import Expiry
from frazil.maintain.operations import run_operation
from frazil.maintain.report import OperationReport
from tests.log.support import ManualClock
from tests.maintain.support import EVENTS, maintenance_context

FEW = ExpiryConfig(max_age_hours=0, keep_last=2, max_snapshots=3)


def clock_now() -> ManualClock:
    clock = ManualClock()
    clock.ms = time.time_ns() // 1_000_000 + 1
    return clock


def expire(lake: Lake, clock: ManualClock, config: ExpiryConfig = FEW, dry_run: bool = False) -> OperationReport:
    return run_operation(maintenance_context(lake, clock=clock), Expiry(config), EVENTS, dry_run)
