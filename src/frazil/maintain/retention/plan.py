"""The plan of what retention removes from a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.types import NestedField, PrimitiveType

from frazil.maintain.rewrite.old_rows import OldRows


@dataclass(frozen=True)
class RetentionPlan:
    whole: list[DataFile] = field(default_factory=list)
    """The files whose rows are all to be removed."""
    mixed: list[DataFile] = field(default_factory=list)
    """The files of which some rows are to be removed and cannot wait."""
    where: str = ""
    """An SQL condition that is true for the rows to remove."""
    old: OldRows = field(default_factory=OldRows)
    """The rows to remove, as `where` has them."""
    manifests: BooleanExpression = field(default_factory=AlwaysTrue)
    """A filter that is true for some row of every file in `whole`, to find the manifests that list them."""
    held: int = 0
    """This is how many files with such rows stay because somebody has not read them."""
    waits: str = ""
    """Who has not read them, and what can be done about it."""

    def __bool__(self) -> bool:
        return bool(self.whole or self.mixed)


def time_range(file: DataFile, column: NestedField) -> tuple[Any, Any]:
    """Returns the lowest and highest time in a file, as far as its statistics have them.

    The highest is None if some rows have no time.
    """
    lower, upper = _bound(file.lower_bounds, column), _bound(file.upper_bounds, column)
    if (file.null_value_counts or {}).get(column.field_id) != 0:
        upper = None
    return lower, upper


def _bound(bounds: dict[int, bytes] | None, column: NestedField) -> Any:
    stored = (bounds or {}).get(column.field_id)
    assert isinstance(column.field_type, PrimitiveType)
    return None if stored is None else from_bytes(column.field_type, stored)
