"""Chooses the rows of a scan: by tenant, by time, and by the predicate."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_binary, is_fixed_size_binary, is_nested, is_string

from frazil.errors import ConfigError
from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.tree import Column, Comparison, In, Predicate
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn


@dataclass(frozen=True)
class Tenants:
    """Lets only the rows of some tenants through."""

    column: str
    names: tuple[str, ...]
    kind: pa.DataType

    def __post_init__(self) -> None:
        if is_nested(self.kind):
            raise ConfigError(
                f"tenant_column: {self.column!r} is of type {self.kind}, which cannot be a name; take a column of "
                f"text."
            )

    @property
    def predicate(self) -> Predicate | None:
        """Returns a condition by which files can be skipped, if there is one for the type of the column."""
        if not is_string(self.kind):
            return None
        if len(self.names) == 1:
            return Comparison(Column(self.column), "==", self.names[0])
        return In(Column(self.column), frozenset(self.names))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Returns which rows belong to the tenants: their column has one of the names, as text or as bytes."""
        column = batch.column(self.column)
        if is_binary(self.kind) or is_fixed_size_binary(self.kind):
            wanted = pa.array([name.encode() for name in self.names], pa.binary())
            return pc.is_in(column.cast(pa.binary()), value_set=wanted)
        text = column if is_string(column.type) else column.cast(pa.string())
        if len(self.names) == 1:
            return pc.equal(text, self.names[0]).fill_null(False)
        return pc.is_in(text, value_set=pa.array(self.names, pa.string()))


@dataclass(frozen=True)
class TimeRange:
    column: TimeColumn
    start_ns: int | None
    end_ns: int | None

    def covers(self, bounds_ns: tuple[int, int]) -> bool:
        """Returns whether rows with times between these bounds are all wanted."""
        first, last = bounds_ns
        # The least time may stand for rows without a time, which are in no range.
        within = first > LEAST and last < MOST
        return (
            within
            and (self.start_ns is None or first >= self.start_ns)
            and (self.end_ns is None or last < self.end_ns)
        )

    def touches(self, bounds_ns: tuple[int, int]) -> bool:
        """Returns whether a row with a time between these bounds may be wanted."""
        first, last = bounds_ns
        early = self.start_ns is not None and last < min(MOST, self.start_ns)
        late = self.end_ns is not None and self.end_ns <= MOST and first >= max(LEAST, self.end_ns) and first > LEAST
        return not early and not late

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return self.column.within(batch, self.start_ns, self.end_ns)


@dataclass(frozen=True)
class RowFilter:
    tenants: Tenants | None
    time: TimeRange | None
    where: Predicate | None
    where_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns the columns that the filter looks at."""
        time = self.time.column.columns if self.time else ()
        return tuple(dict.fromkeys([*self.tenant_columns, *time, *self.where_columns]))

    @property
    def tenant_columns(self) -> tuple[str, ...]:
        return (self.tenants.column,) if self.tenants else ()

    @property
    def pruning(self) -> Predicate | None:
        """Returns what files and row groups can be skipped by, besides their times."""
        return all_of(self.tenants.predicate if self.tenants else None, self.where)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Returns which rows are wanted, or None if all are."""
        found = self.own(batch)
        if self.time is not None:
            found = _both(found, self.time.mask(batch))
        if self.where is None:
            return found
        if found is None or found.true_count == len(batch):
            return mask(self.where, batch)
        kept = pc.indices_nonzero(found)
        if 4 * len(kept) > len(batch):
            return pc.and_(found, mask(self.where, batch))
        # The predicate is evaluated only for the few rows that are left.
        wanted = kept.filter(mask(self.where, batch.take(kept)))
        return pc.is_in(pa.arange(0, len(batch)).cast(wanted.type), value_set=wanted)

    def own(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Returns which rows the tenants may see, or None if they may see all."""
        return None if self.tenants is None else self.tenants.mask(batch)


def _both(one: pa.BooleanArray | None, other: pa.BooleanArray) -> pa.BooleanArray:
    return other if one is None else pc.and_(one, other)
