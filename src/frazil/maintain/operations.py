"""Doing an operation to a table, whatever comes of it: a report, and an entry in the transaction log."""

from __future__ import annotations

import logging
from typing import Protocol

from pyiceberg.table import Table

from frazil.errors import CasConflict, FrazilError, TableNotFound, TableRolledBack
from frazil.lake.commit.offsets import check_history
from frazil.maintain.report import Later, NotOurs, Report, Work
from frazil.maintain.targets import Target, check_version
from frazil.maintain.workshop import Workshop

logger = logging.getLogger(__name__)


class Operation(Protocol):
    """Safe to do at any time, any number of times, beside those who write to the table and read it."""

    @property
    def name(self) -> str: ...

    @property
    def any_version(self) -> bool:
        """Whether it may look at tables that a newer Frazil made."""

    def applies(self, target: Target) -> bool:
        """Whether tables of this kind are its business at all."""

    def run(self, shop: Workshop, table: Table, dry_run: bool) -> Work:
        """Do it, or only say what would be done. `Later` and `CasConflict` are no failures."""


def perform(shop: Workshop, operation: Operation, target: Target, dry_run: bool = False) -> Report:
    """Do it to one table; no error comes out but those that are no `FrazilError`."""
    started = shop.world.clock.monotonic()
    error: FrazilError | None = None
    try:
        work = _work(shop, operation, target, dry_run)
    except (Later, CasConflict) as conflict:
        work = Work("later", note=str(conflict))
    except (NotOurs, TableNotFound, TableRolledBack) as reason:
        work = Work("skipped", note=str(reason))
    except FrazilError as failure:
        error, work = failure, Work("failed", note=str(failure))
    seconds = shop.world.clock.monotonic() - started
    report = Report(operation.name, target.name, target.topic, work, seconds, error)
    if not dry_run:
        write_down(shop, report)
    return report


def _work(shop: Workshop, operation: Operation, target: Target, dry_run: bool) -> Work:
    if target.problem is not None:
        raise target.problem
    table = shop.lake.load(target.identifier)
    if not operation.any_version:
        check_version(table)
        # What somebody may want to go forward to again must not be tidied away.
        check_history(table)
    return operation.run(shop, table, dry_run)


def write_down(shop: Workshop, report: Report) -> None:
    """What was done, or tried in vain. What there was no reason to try would only fill the log."""
    if report.outcome not in {"done", "later", "failed"}:
        return
    data = report.as_data()
    told = ("outcome", "before", "after", "removed", "note", "seconds")
    details = {key: data[key] for key in told if data[key]}
    if report.outcome != "failed":
        # Who asked for it tells of failures, and not of the same one again and again.
        logger.info("maintenance", extra={"operation": report.operation, "table": report.table, **details})
    if shop.txlog is not None:
        shop.txlog.maintenance_op(report.operation, report.table, details, report.topic)
