"""How a table is born: together with an empty first snapshot, its properties and its offsets, or not at all.

A table without a snapshot is a danger: not every catalog checks that there is none yet, so a first commit that comes
late could replace another's rows. Where the catalog can, table and snapshot are made by one update. Where it cannot,
the table grows up under a temporary name, which nobody looks for, and is renamed when it is complete.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableUpdate
from pyiceberg.table.update.snapshot import _FastAppendFiles

from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import Identifier, Lake, calling, dotted
from frazil.lake.commit.offsets import OFFSETS, offsets_to_json

TEMPORARY = "__new_"
"""What the name of an unfinished table has after the name it is meant for."""

_LOCATION = "location"


@dataclass(frozen=True)
class NewTable:
    """All that a table is born with."""

    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    properties: Mapping[str, str]
    offsets: Mapping[int, int]
    folder: str
    """Name of the table's folder in that of its namespace."""


def create_with_snapshot(lake: Lake, identifier: Identifier, plan: NewTable) -> Table:
    """Make the table. `TableExists` or `CasConflict` when there is one of that name."""
    catalog = lake.catalog
    with calling(f"Making table {dotted(identifier)} in the {lake.where}"):
        location = _location(lake, catalog, identifier, plan)
        # PyIceberg makes tables and snapshots in one step only two levels deep.
        if lake.properties["type"] == "sql" and len(identifier) == 2:
            _at_once(catalog, identifier, location, plan)
        else:
            _step_by_step(catalog, identifier, location, plan)
    return lake.load(identifier)


def is_temporary(identifier: Identifier) -> bool:
    return TEMPORARY in identifier[-1]


def empty_snapshot(transaction: Transaction, summary: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    """Write the manifest list of a snapshot that changes no row, and give the updates that make it current."""
    append = _FastAppendFiles(
        operation=Operation.APPEND,
        transaction=transaction,
        io=transaction._table.io,
        snapshot_properties=dict(summary),
        branch=MAIN_BRANCH,
    )
    updates, _ = append._commit()
    return updates


def _at_once(catalog: Catalog, identifier: Identifier, location: str | None, plan: NewTable) -> None:
    creation = catalog.create_table_transaction(
        identifier, plan.schema, location, plan.spec, plan.order, dict(plan.properties)
    )
    failpoint("create.staged")
    creation._stage(empty_snapshot(creation, {OFFSETS: offsets_to_json(plan.offsets)}))
    failpoint("create.snapshot")
    creation.commit_transaction()
    failpoint("create.committed")


def _step_by_step(catalog: Catalog, identifier: Identifier, location: str | None, plan: NewTable) -> None:
    temporary = (*identifier[:-1], f"{identifier[-1]}{TEMPORARY}{uuid.uuid4().hex[:12]}")
    table = catalog.create_table(temporary, plan.schema, location, plan.spec, plan.order, dict(plan.properties))
    failpoint("create.staged")
    updates = empty_snapshot(Transaction(table), {OFFSETS: offsets_to_json(plan.offsets)})
    nobody_else = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=None),
    )
    catalog.commit_table(table, nobody_else, updates)
    failpoint("create.snapshot")
    try:
        catalog.rename_table(temporary, identifier)
    except TableAlreadyExistsError:
        # Only its name goes. Its files lie in the folder of the table that won.
        catalog.drop_table(temporary)
        raise
    failpoint("create.committed")


def _location(lake: Lake, catalog: Catalog, identifier: Identifier, plan: NewTable) -> str | None:
    """The table's folder; None where only the catalog knows the place."""
    namespace = identifier[:-1]
    if given := catalog.load_namespace_properties(namespace).get(_LOCATION):
        return f"{given.rstrip('/')}/{plan.folder}"
    warehouse = str(lake.properties.get("warehouse", ""))
    if "/" in warehouse:
        return f"{warehouse.rstrip('/')}/{dotted(namespace)}/{plan.folder}"
    return None
