"""Doing an operation to a table, whatever comes of it: a report, and an entry in the transaction log."""

from __future__ import annotations

import logging
from typing import Protocol

from pyiceberg.table import Table

from frazil.errors import CasConflict, FrazilError, TableNotFound, TableRolledBack
from frazil.lake.commit.offsets import check_not_rolled_back
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable, check_version
from frazil.maintain.report import Later, NotOurs, OperationReport, OperationResult

logger = logging.getLogger(__name__)


class Operation(Protocol):
    """Safe to do at any time, any number of times, beside those who write to the table and read it."""

    @property
    def name(self) -> str: ...

    @property
    def any_version(self) -> bool:
        """Whether it may look at tables that a newer Frazil made."""

    def applies(self, target: MaintainedTable) -> bool:
        """Whether tables of this kind are its business at all."""

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        """Do it, or only say what would be done. `Later` and `CasConflict` are no failures."""


def run_operation(
    context: MaintenanceContext, operation: Operation, target: MaintainedTable, dry_run: bool = False
) -> OperationReport:
    """Do it to one table; no error comes out but those that are no `FrazilError`."""
    started = context.world.clock.monotonic()
    error: FrazilError | None = None
    try:
        work = _work(context, operation, target, dry_run)
    except (Later, CasConflict) as conflict:
        work = OperationResult("later", note=str(conflict))
    except (NotOurs, TableNotFound, TableRolledBack) as reason:
        work = OperationResult("skipped", note=str(reason))
    except FrazilError as failure:
        error, work = failure, OperationResult("failed", note=str(failure))
    seconds = context.world.clock.monotonic() - started
    report = OperationReport(operation.name, target.name, target.topic, work, seconds, error)
    if not dry_run:
        log_report(context, report)
    return report


def _work(
    context: MaintenanceContext, operation: Operation, target: MaintainedTable, dry_run: bool
) -> OperationResult:
    if target.problem is not None:
        raise target.problem
    table = context.lake.load(target.identifier)
    if not operation.any_version:
        check_version(table)
        # What somebody may want to go forward to again must not be tidied away.
        check_not_rolled_back(table)
    return operation.run(context, table, dry_run)


def log_report(context: MaintenanceContext, report: OperationReport) -> None:
    """What was done, or tried in vain. What there was no reason to try would only fill the log."""
    if report.outcome not in {"done", "later", "failed"}:
        return
    data = report.as_data()
    told = ("outcome", "before", "after", "removed", "note", "seconds")
    details = {key: data[key] for key in told if data[key]}
    if report.outcome != "failed":
        # Who asked for it tells of failures, and not of the same one again and again.
        logger.info("maintenance", extra={"operation": report.operation, "table": report.table, **details})
    if context.txlog is not None:
        context.txlog.maintenance_op(report.operation, report.table, details, report.topic)
