"""Merges the columns of a topic into the columns of its table.

The merge has no side effects: it takes columns and returns columns, changes and problems. New optional columns and
wider numbers are always allowed, also inside structs, lists and maps. Everything else is a problem with a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)


class Remedy(Enum):
    """Says what would solve a problem if a person agrees to it."""

    REPLACE = "the column of the table is put aside, and one that fits takes its name"
    RELAX = "the column of the table may be null"
    NONE = "nothing"


@dataclass(frozen=True)
class ColumnProblem:
    column: str
    """The top-level column that has the problem, perhaps in a field inside it."""
    text: str
    remedy: Remedy


@dataclass
class ColumnMerge:
    """One merge: the field ids that are still free, the changes and the problems so far."""

    ids: Iterator[int]
    changes: list[str] = field(default_factory=list)
    problems: list[ColumnProblem] = field(default_factory=list)

    @classmethod
    def after(cls, last_id: int) -> ColumnMerge:
        return cls(count(last_id + 1))

    def columns(self, table: Sequence[NestedField], topic: Sequence[NestedField]) -> list[NestedField]:
        return self._fields(table, topic, "", None)

    def numbered(self, new: NestedField, required: bool | None = None) -> NestedField:
        """Returns the field with new ids for itself and all fields inside it."""
        field_id = next(self.ids)
        return NestedField(
            field_id,
            new.name,
            self._numbered_type(new.field_type),
            required=new.required if required is None else required,
            doc=new.doc,
        )

    def _fields(
        self, table: Sequence[NestedField], topic: Sequence[NestedField], path: str, top: str | None
    ) -> list[NestedField]:
        wanted = {column.name: column for column in topic}
        merged = [self._field(old, wanted.pop(old.name, None), path, top or old.name) for old in table]
        for new in wanted.values():
            name = path + new.name
            if new.required:
                text = f"column {name!r} is required, but the rows that are there do not have it"
                self.problems.append(ColumnProblem(top or new.name, text, Remedy.RELAX))
            self.changes.append(f"new column {name!r} ({new.field_type})")
            merged.append(self.numbered(new, required=False))
        return merged

    def _field(self, old: NestedField, new: NestedField | None, path: str, top: str) -> NestedField:
        name = path + old.name
        if new is None:
            if old.required:
                self._strict(f"column {name!r} is required in the table, but the topic does not have it", path, top)
            return old
        if old.required and not new.required:
            self._strict(f"column {name!r} is required in the table, but may be null in the topic", path, top)
        kind = self._type(old.field_type, new.field_type, name, top)
        if kind == old.field_type:
            return old
        return old.model_copy(update={"field_type": kind})

    def _strict(self, text: str, path: str, top: str) -> None:
        """Adds the problem that a required field would have to be optional.

        A field inside another column cannot be relaxed by itself, so the whole column has to be replaced.
        """
        self.problems.append(ColumnProblem(top, text, Remedy.REPLACE if path else Remedy.RELAX))

    def _type(self, old: IcebergType, new: IcebergType, name: str, top: str) -> IcebergType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return StructType(*self._fields(old.fields, new.fields, f"{name}.", top))
        if isinstance(old, ListType) and isinstance(new, ListType):
            if old.element_required and not new.element_required:
                self._strict(f"items of {name!r} must not be null in the table, but may be in the topic", name, top)
            element = self._type(old.element_type, new.element_type, f"{name}.element", top)
            return ListType(old.element_id, element, element_required=old.element_required)
        if isinstance(old, MapType) and isinstance(new, MapType) and _same(old.key_type, new.key_type):
            if old.value_required and not new.value_required:
                self._strict(f"values of {name!r} must not be null in the table, but may be in the topic", name, top)
            value = self._type(old.value_type, new.value_type, f"{name}.value", top)
            return MapType(old.key_id, old.key_type, old.value_id, value, value_required=old.value_required)
        if old == new or _widens(new, old):
            return old
        if _widens(old, new):
            self.changes.append(f"column {name!r} becomes {new}, from {old}")
            return new
        text = f"column {name!r} is {old} in the table, but {new} in the topic"
        self.problems.append(ColumnProblem(top, text, Remedy.REPLACE))
        return old

    def _numbered_type(self, kind: IcebergType) -> IcebergType:
        if isinstance(kind, StructType):
            return StructType(*(self.numbered(inner) for inner in kind.fields))
        if isinstance(kind, ListType):
            element_id = next(self.ids)
            element = self._numbered_type(kind.element_type)
            return ListType(element_id, element, element_required=kind.element_required)
        if isinstance(kind, MapType):
            key_id, value_id = next(self.ids), next(self.ids)
            key, value = self._numbered_type(kind.key_type), self._numbered_type(kind.value_type)
            return MapType(key_id, key, value_id, value, value_required=kind.value_required)
        return kind


def _widens(old: IcebergType, new: IcebergType) -> bool:
    """Returns whether Iceberg allows to promote the old type to the new one in columns with data."""
    match old, new:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return old.scale == new.scale and old.precision <= new.precision
    return False


def _same(one: IcebergType, other: IcebergType) -> bool:
    """Returns whether the types are equal apart from their field ids.

    Map keys are never changed: rows would be lost.
    """
    return str(one) == str(other)
