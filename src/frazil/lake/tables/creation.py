"""Creates a table together with an empty first snapshot, its properties and its offsets, or not at all.

A table without a snapshot is a danger: not every catalog checks that there is none yet, so a first commit that comes
late could replace another's rows. If the catalog can, it creates table and snapshot in one update. If it cannot, the
table is created under a temporary name, which nobody looks for, and is renamed when it is complete.
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
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import Identifier, Lake, calling, dotted
from frazil.lake.commit.offsets import OFFSETS, offsets_to_json
from frazil.lake.pyiceberg_internals import stage, write_empty_snapshot

TEMPORARY = "__new_"
"""An unfinished table has the name it is meant for, this text and a random number as its name."""

_LOCATION = "location"


@dataclass(frozen=True)
class NewTable:
    """Everything that a table is created with."""

    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    properties: Mapping[str, str]
    offsets: Mapping[int, int]
    folder: str
    """The name of the table's folder inside the folder of its namespace."""


def create_with_snapshot(lake: Lake, identifier: Identifier, plan: NewTable) -> Table:
    """Creates the table. Raises `TableExists` or `CasConflict` if there is a table of that name."""
    catalog = lake.catalog
    with calling(f"Making table {dotted(identifier)} in the {lake.where}"):
        location = _location(lake, catalog, identifier, plan)
        # PyIceberg creates table and snapshot in one step only if the namespace has one level.
        if lake.properties["type"] == "sql" and len(identifier) == 2:
            _at_once(catalog, identifier, location, plan)
        else:
            _step_by_step(catalog, identifier, location, plan)
    return lake.load(identifier)


def is_temporary(identifier: Identifier) -> bool:
    return TEMPORARY in identifier[-1]


def _at_once(catalog: Catalog, identifier: Identifier, location: str | None, plan: NewTable) -> None:
    creation = catalog.create_table_transaction(
        identifier, plan.schema, location, plan.spec, plan.order, dict(plan.properties)
    )
    failpoint("create.staged")
    stage(creation, write_empty_snapshot(creation, {OFFSETS: offsets_to_json(plan.offsets)}))
    failpoint("create.snapshot")
    creation.commit_transaction()
    failpoint("create.committed")


def _step_by_step(catalog: Catalog, identifier: Identifier, location: str | None, plan: NewTable) -> None:
    temporary = (*identifier[:-1], f"{identifier[-1]}{TEMPORARY}{uuid.uuid4().hex[:12]}")
    table = catalog.create_table(temporary, plan.schema, location, plan.spec, plan.order, dict(plan.properties))
    failpoint("create.staged")
    updates = write_empty_snapshot(Transaction(table), {OFFSETS: offsets_to_json(plan.offsets)})
    nobody_else = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=None),
    )
    catalog.commit_table(table, nobody_else, updates)
    failpoint("create.snapshot")
    try:
        catalog.rename_table(temporary, identifier)
    except TableAlreadyExistsError:
        # Only the name is dropped. The files are in the folder of the table that won.
        catalog.drop_table(temporary)
        raise
    failpoint("create.committed")


def _location(lake: Lake, catalog: Catalog, identifier: Identifier, plan: NewTable) -> str | None:
    """Returns the table's folder, or None if only the catalog knows where tables are stored."""
    namespace = identifier[:-1]
    if given := catalog.load_namespace_properties(namespace).get(_LOCATION):
        return f"{given.rstrip('/')}/{plan.folder}"
    warehouse = str(lake.properties.get("warehouse", ""))
    if "/" in warehouse:
        return f"{warehouse.rstrip('/')}/{dotted(namespace)}/{plan.folder}"
    return None
