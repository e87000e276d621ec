"""Which names fields may have: such that tables can have a column of that name, beside those that are there."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.json.scalars import Misfit, check_text, shown
from frazil.formats.type_pruning import pruned
from frazil.log.schema.columns import name_flaw
from frazil.log.schema.paths import folded, named_parts


class FieldNames:
    """All names at all levels, by the paths that tables have for them."""

    def __init__(self, kind: pa.DataType | None = None) -> None:
        """Those of a type, whatever they are."""
        parts = named_parts(kind) if kind is not None else ()
        self._taken = {folded(part.path): part.path for part in parts}
        self._fresh: list[str] = []

    def add(self, path: str, name: str) -> None:
        """`Misfit` if there can be no such column; else it is new until the names are kept or forgotten."""
        if flaw := name_flaw(path, name):
            raise Misfit(flaw)
        check_text(name, path)
        key = folded(path)
        other = self._taken.get(key)
        if other == path:
            raise Misfit(f"field {shown(path)} is there twice: tables name what is inside of others with dots, too")
        if other is not None:
            raise Misfit(f"field {shown(path)} differs in case only from {shown(other)}: Spark takes both for one")
        self._taken[key] = path
        self._fresh.append(key)

    def keep(self) -> None:
        self._fresh.clear()

    def forget(self) -> None:
        """What is new."""
        for key in self._fresh:
            del self._taken[key]
        self._fresh.clear()


def check_names(kind: pa.DataType) -> None:
    """`Misfit` if no table can have columns of all these names."""
    names = FieldNames()
    for part in named_parts(kind):
        names.add(*part)


def nameable(kind: pa.DataType) -> pa.DataType:
    """The type without fields that no table can have; of two that cannot be together the first stays."""
    names = FieldNames()

    def is_free(path: str, name: str) -> bool:
        try:
            names.add(path, name)
        except Misfit:
            return False
        return True

    return pruned(kind, is_free)
