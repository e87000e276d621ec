"""Checks the names of fields: a table must be able to have such a column beside the others."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.json.scalars import Misfit, check_text, shown
from frazil.formats.type_pruning import pruned
from frazil.log.schema.columns import name_problem
from frazil.log.schema.paths import folded, named_paths


class FieldNames:
    """The names of fields at all levels, under the paths that tables give them."""

    def __init__(self, kind: pa.DataType | None = None) -> None:
        """Starts with the names in a type, without checking them."""
        parts = named_paths(kind) if kind is not None else ()
        self._taken = {folded(part.path): part.path for part in parts}
        self._fresh: list[str] = []

    def add(self, path: str, name: str) -> None:
        """Adds a name. Raises `Misfit` if there can be no such column. The name is new until `keep` or `forget` is
        called."""
        if flaw := name_problem(path, name):
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
        """Forgets the names added since the last `keep`."""
        for key in self._fresh:
            del self._taken[key]
        self._fresh.clear()


def check_names(kind: pa.DataType) -> None:
    """Raises `Misfit` if no table can have columns of all these names."""
    names = FieldNames()
    for part in named_paths(kind):
        names.add(*part)


def nameable(kind: pa.DataType) -> pa.DataType:
    """Returns the type without fields that no table can have. Of two names that exclude each other the first
    stays."""
    names = FieldNames()

    def is_free(path: str, name: str) -> bool:
        try:
            names.add(path, name)
        except Misfit:
            return False
        return True

    return pruned(kind, is_free)
