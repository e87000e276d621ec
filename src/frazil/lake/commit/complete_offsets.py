"""Stores in a table from which offset on it has all rows that were ever moved to it.

Retention removes rows. Who reads the whole table wants the rows that are left. Who follows a topic by offsets wants
every row, and must get an error if some are gone. So retention stores this offset for each partition in a property.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table

from frazil.errors import IcebergError
from frazil.lake.commit.offsets import name_of

COMPLETE_FROM = "frazil.complete-from."
"""Prefix of the table properties. They end with the number of a partition."""


def complete_from(table: Table | None) -> dict[int, int]:
    """Returns for each partition the offset from which on no row was removed. It is 0 for missing partitions."""
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
    """Returns the properties to set when rows up to these offsets are removed. Unchanged ones are left out."""
    known = complete_from(table)
    return {
        f"{COMPLETE_FROM}{partition}": str(offset + 1)
        for partition, offset in sorted(highest.items())
        if offset + 1 > known.get(partition, 0)
    }
