"""Runs an operation on a table, and records the outcome in a report and in the transaction log."""

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
    """A maintenance operation. It is safe at any time, any number of times, while the table is written and read."""

    @property
    def name(self) -> str: ...

    @property
    def any_version(self) -> bool:
        """Returns whether it may run on tables that a newer Frazil created."""

    def applies(self, target: MaintainedTable) -> bool:
        """Returns whether the operation is for tables of this kind."""

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        """Runs the operation, or only returns what it would do. `Later` and `CasConflict` are no failures."""


def run_operation(
    context: MaintenanceContext, operation: Operation, target: MaintainedTable, dry_run: bool = False
) -> OperationReport:
    """Runs an operation on one table. Errors of Frazil are in the report, and other errors are raised."""
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
        # After a rollback, somebody may want to go back to the newer snapshots, so nothing may be removed.
        check_not_rolled_back(table)
    return operation.run(context, table, dry_run)


def log_report(context: MaintenanceContext, report: OperationReport) -> None:
    """Logs what was done, or tried in vain. Operations that had nothing to do would only fill the log."""
    if report.outcome not in {"done", "later", "failed"}:
        return
    data = report.as_data()
    told = ("outcome", "before", "after", "removed", "note", "seconds")
    details = {key: data[key] for key in told if data[key]}
    if report.outcome != "failed":
        # The caller logs failures, and repeated ones only once.
        logger.info("maintenance", extra={"operation": report.operation, "table": report.table, **details})
    if context.txlog is not None:
        context.txlog.maintenance_op(report.operation, report.table, details, report.topic)
