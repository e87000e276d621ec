"""What retention is to take out of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.types import NestedField, PrimitiveType


@dataclass(frozen=True)
class RetentionPlan:
    whole: list[DataFile] = field(default_factory=list)
    """All their rows have to go."""
    mixed: list[DataFile] = field(default_factory=list)
    """Some have, and cannot wait."""
    where: str = ""
    """SQL that is true for the rows that go."""
    manifests: BooleanExpression = field(default_factory=AlwaysTrue)
    """True for some row of every file of `whole`: finds the manifests that name them."""
    held: int = 0
    """Files with such rows that stay for others."""
    waits: str = ""
    """For whom, and what can be done about it."""

    def __bool__(self) -> bool:
        return bool(self.whole or self.mixed)


def time_range(file: DataFile, column: NestedField) -> tuple[Any, Any]:
    """The lowest and highest time in a file by its statistics, where those tell; rows without a time have none."""
    lower, upper = _bound(file.lower_bounds, column), _bound(file.upper_bounds, column)
    if (file.null_value_counts or {}).get(column.field_id) != 0:
        upper = None
    return lower, upper


def _bound(bounds: dict[int, bytes] | None, column: NestedField) -> Any:
    stored = (bounds or {}).get(column.field_id)
    assert isinstance(column.field_type, PrimitiveType)
    return None if stored is None else from_bytes(column.field_type, stored)
