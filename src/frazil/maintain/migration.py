"""Migration: upgrades tables that an older Frazil created.

Each step takes a table from one version to the next in one atomic change, which also sets the version. So a migration
that is killed, or run by two processes at once, is between two steps and continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate, TableRequirement, TableUpdate

from frazil.errors import CasConflict
from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import dotted
from frazil.lake.tables.tables import CURRENT_VERSION, VERSION
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable, check_version, version_of
from frazil.maintain.metadata_updates import commit_updates
from frazil.maintain.report import OperationResult

_TRIES = 10
"""This is how often a change is tried. A mover commits every few seconds, and a change takes a fraction of a
second."""


@dataclass(frozen=True)
class Change:
    """The updates of a step, and the requirements that must hold when they are committed."""

    updates: Sequence[TableUpdate]
    requirements: Sequence[TableRequirement] = ()


@dataclass(frozen=True)
class Step:
    """The migration from one version to the next."""

    description: str
    plan: Callable[[Table], Change]
    """Plans the change by the table alone, because a step may be planned more than once."""


STEPS: Mapping[int, Step] = {}
"""The steps by the version that they start from. Version 1 is the first, so there is none yet."""


class Migration:
    name = "migrate"
    any_version = True

    def __init__(self, steps: Mapping[int, Step] = STEPS, newest: int = int(CURRENT_VERSION)) -> None:
        self._steps = steps
        self._newest = newest

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        check_version(table, self._newest)
        version = version_of(table)
        planned = tuple(
            f"version {at} to {at + 1}: {self._steps[at].description}" for at in range(version, self._newest)
        )
        if not planned:
            return OperationResult("nothing", note=f"version {version}")
        if dry_run:
            return OperationResult("would", note=f"version {version} to {self._newest}", items=planned)
        context.progress(f"migrating {dotted(table.name())} from version {version} to {self._newest}")
        with context.exclusive(table.name()):
            while version_of(table) < self._newest:
                table = self._step(context, table)
        return OperationResult("done", note="; ".join(planned))

    def _step(self, context: MaintenanceContext, table: Table) -> Table:
        """Migrates the table by one version and returns it. Somebody else may have done that meanwhile."""
        version = version_of(table)
        for left in reversed(range(_TRIES)):
            failpoint("migrate.step")
            planned = self._steps[version].plan(table)
            stamp = SetPropertiesUpdate(updates={VERSION: str(version + 1)})
            try:
                return commit_updates(context.lake, table, (*planned.updates, stamp), planned.requirements)
            except CasConflict:
                if not left:
                    raise
                table = context.lake.load(table.name())
                if version_of(table) != version:
                    return table
        raise AssertionError("unreachable")
