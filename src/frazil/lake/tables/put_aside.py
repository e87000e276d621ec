"""Puts a table aside, so that another can be created under its name, when a person has decided so.

The table is renamed, never dropped, and retired in the table history. Whoever opens the topic's table next finds none
and creates it as if it had never existed, in a folder of its own.
"""

from __future__ import annotations

from itertools import count

from pyiceberg.table import Table

from frazil.errors import TableExists
from frazil.failpoints import failpoint
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.tables.table_check import TableCheck
from frazil.lake.tables.table_history import add_retirement
from frazil.lake.tables.tables import find_table
from frazil.store import ObjectStore

OLD_SUFFIX = "__old_"
"""A table that was put aside has its former name, this text and a number as its name."""


def put_table_aside(lake: Lake, store: ObjectStore, check: TableCheck) -> Identifier | None:
    """Renames the table and retires it in the history. Returns its new name, or None if there was no table."""
    if check.table is not None and not check.is_claimed:
        raise check.error()
    new_name = None if check.table is None else _rename(lake, check.table)
    failpoint("retire.renamed")
    if check.history:
        add_retirement(store, check.topic, check.history[-1])
    return new_name


def _rename(lake: Lake, table: Table) -> Identifier:
    name = table.name()
    for number in count(1):
        new_name = (*name[:-1], f"{name[-1]}{OLD_SUFFIX}{number}")
        if find_table(lake, new_name) is not None:
            continue
        try:
            with calling(f"Renaming table {dotted(name)} to {dotted(new_name)}"):
                lake.catalog.rename_table(name, new_name)
            return new_name
        except TableExists:
            continue
    raise AssertionError("there is always another number")
