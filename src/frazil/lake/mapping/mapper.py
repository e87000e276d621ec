"""Maps batches of a topic to batches of its table.

Columns are matched by name and converted as a whole. Older batches may lack columns or have narrower types: columns
that they lack become null. A row that does not fit becomes a misfit with the reason, and the other rows are mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from frazil.errors import TableSchemaMismatch
from frazil.formats.schema_cache import SchemaCache
from frazil.lake.mapping.conversions import (
    Conversion,
    Conversions,
    floor_microseconds,
    required,
    rest_of_microseconds,
)
from frazil.lake.mapping.dictionaries import keep_dictionaries
from frazil.lake.mapping.misfits import FAILURES, Misfits, find_faults
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.types import is_nanoseconds
from frazil.log.schema.columns import NANOSECONDS, OFFSET, PARTITION
from frazil.log.schema.schema import without_dictionaries

OnMismatch = Literal["stop", "dead-letter"]


class FittedBatch(NamedTuple):
    batch: pa.RecordBatch
    """The rows that fit, in the table's Arrow schema."""
    faults: Mapping[int, str]
    """The reasons why other rows do not fit, by their index in the batch."""


class MappedBatch(NamedTuple):
    batch: pa.RecordBatch
    misfits: Misfits | None


class Mapper:
    """Maps batches of one topic to one schema of its table.

    With `stop`, types that do not fit the table raise `TableSchemaMismatch`. With `dead-letter`, each value is tried,
    and rows that fail become misfits.
    """

    def __init__(self, topic_schema: pa.Schema, table_schema: Schema, on_mismatch: OnMismatch = "stop") -> None:
        self.schema = arrow_schema(table_schema)
        self._on_mismatch = on_mismatch
        self._plans = SchemaCache(self._plan)
        self._plans[topic_schema]

    def map(self, batch: pa.RecordBatch, partition: int, offset: int) -> MappedBatch:
        """Maps a batch whose first row has this offset."""
        offsets = pa.arange(offset, offset + len(batch))
        fitted = self.fit(batch, partition, offsets)
        return MappedBatch(fitted.batch, Misfits.of(batch, offsets, fitted.faults) if fitted.faults else None)

    def fit(self, batch: pa.RecordBatch, partition: int, offsets: pa.Array) -> FittedBatch:
        """Maps a batch whose rows have these offsets (int64, in order)."""
        plan = self._plans[batch.schema]
        try:
            return FittedBatch(plan.apply(batch, partition, offsets), {})
        except FAILURES as error:
            plain = without_dictionaries(batch)
            if plain is not batch:
                # A wrong value in a dictionary would look like a fault of every row.
                return self.fit(plain, partition, offsets)
            faults = plan.faults(batch)
            if not faults:
                raise TableSchemaMismatch(
                    f"Offsets {offsets[0]} to {offsets[-1]} of partition {partition} cannot be mapped to the table, "
                    f"though each row can be: {error}."
                ) from error
        good = pc.invert(pc.is_in(pa.arange(0, len(batch)), value_set=pa.array(faults, pa.int64())))
        return FittedBatch(plan.apply(batch.filter(good), partition, offsets.filter(good)), faults)

    def takes_all(self, schema: pa.Schema) -> bool:
        """Returns whether every row of this schema fits, whatever its values are."""
        return self._plans[schema].is_total

    def _plan(self, schema: pa.Schema) -> _BatchMapping:
        plan = _BatchMapping(schema, self.schema)
        if plan.problems and self._on_mismatch == "stop":
            raise TableSchemaMismatch(
                f"The topic does not fit its table: {'; '.join(plan.problems)}. Change the table, or resume the "
                f"topic with --dead-letter: rows that do not fit then go to the dead-letter table."
            )
        return plan


class _ColumnMapping(NamedTuple):
    name: str
    """The column of the topic. It is empty for a column that the topic lacks."""
    change: Conversion


class _BatchMapping:
    """The mapping of batches of one schema to the table."""

    def __init__(self, source: pa.Schema, target: pa.Schema) -> None:
        self._columns = [(field.name, field.type) for field in target]
        found = {field.name: field.type for field in source}
        self._target = pa.schema(
            [field.with_type(keep_dictionaries(field.type, found.get(field.name, field.type))) for field in target]
        )
        conversions = Conversions()
        self._steps: dict[str, _ColumnMapping] = {}
        stored = set(target.names)
        companions = {
            field.name + NANOSECONDS: field.name
            for field in source
            if is_nanoseconds(field.type) and field.name + NANOSECONDS in stored
        }
        present = set(source.names)
        self._added = {name for name in (PARTITION, OFFSET) if name in stored and name not in present}
        for field in target:
            if field.name in self._added:
                continue
            if field.name in present:
                kind = source.field(field.name).type
                split = field.name + NANOSECONDS in companions and pa.types.is_timestamp(field.type)
                if split and field.type.unit == "us" and (kind.tz is None) == (field.type.tz is None):
                    change = _with_nulls_checked(floor_microseconds(field.type), field)
                else:
                    change = conversions.column(kind, field, field.name)
                self._steps[field.name] = _ColumnMapping(field.name, change)
            elif field.name in companions:
                change = _with_nulls_checked(rest_of_microseconds, field)
                self._steps[field.name] = _ColumnMapping(companions[field.name], change)
            else:
                self._steps[field.name] = _ColumnMapping("", conversions.missing(field, field.name))
        self._refused = [
            _ColumnMapping(field.name, refuse)
            for field in source
            if field.name not in stored and (refuse := conversions.unknown(field.type, field.name)) is not None
        ]
        self.problems = conversions.problems
        fitting = not self.problems and not self._refused
        self.is_total = fitting and all(self._is_total(field, source) for field in target)

    def _is_total(self, field: pa.Field, source: pa.Schema) -> bool:
        """Returns whether the column takes every value of the topic."""
        if field.name in self._added:
            return True
        step = self._steps[field.name]
        if not step.name:
            return bool(field.nullable)
        found = source.field(step.name)
        if found.nullable and not field.nullable:
            return False
        split = is_nanoseconds(found.type) and step.name + NANOSECONDS in self._steps
        return bool(split or found.type == field.type)

    def apply(self, batch: pa.RecordBatch, partition: int, offsets: pa.Array) -> pa.RecordBatch:
        columns = []
        for name, kind in self._columns:
            if name not in self._added:
                step = self._steps[name]
                columns.append(step.change(_column(batch, step)))
            elif name == OFFSET:
                columns.append(offsets.cast(kind))
            else:
                columns.append(pa.repeat(pa.scalar(partition, kind), len(batch)))
        for step in self._refused:
            step.change(_column(batch, step))
        return pa.RecordBatch.from_arrays(columns, schema=self._target)

    def faults(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Returns the rows that do not fit by their index, each with the first reason."""
        found: dict[int, str] = {}
        named = [(step.name or name, step) for name, step in self._steps.items()]
        for name, step in [*named, *((step.name, step) for step in self._refused)]:
            for place, reason in find_faults(_column(batch, step), step.change, name):
                found.setdefault(place, reason)
        return found


def _column(batch: pa.RecordBatch, step: _ColumnMapping) -> pa.Array:
    return batch.column(step.name) if step.name else pa.nulls(len(batch))


def _with_nulls_checked(change: Conversion, field: pa.Field) -> Conversion:
    return change if field.nullable else required(change)
