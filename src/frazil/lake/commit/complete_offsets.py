"""From which offset on a table has all rows that were ever moved to it.

Retention takes rows away. Who reads everything there is wants what is left; who follows a topic by offsets wants
every row, and must be told when that cannot be. So retention leaves a mark in the table, partition by partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table

from frazil.errors import IcebergError
from frazil.lake.commit.offsets import name_of

COMPLETE_FROM = "frazil.complete-from."
"""Table property; ends with the number of a partition."""


def complete_from(table: Table | None) -> dict[int, int]:
    """The first offset of each partition from which on nothing was taken away; 0 where nothing is said."""
    if table is None:
        return {}
    found = {}
    for key, value in table.metadata.properties.items():
        if key.startswith(COMPLETE_FROM):
            try:
                found[int(key[len(COMPLETE_FROM) :])] = int(value)
            except ValueError:
                raise IcebergError(f"table {name_of(table)}: property {key} = {value!r} is not an offset") from None
    return found


def complete_from_properties(table: Table, highest: Mapping[int, int]) -> dict[str, str]:
    """The properties that tell that rows up to these offsets are taken away; those that say so already are left."""
    known = complete_from(table)
    return {
        f"{COMPLETE_FROM}{partition}": str(offset + 1)
        for partition, offset in sorted(highest.items())
        if offset + 1 > known.get(partition, 0)
    }
