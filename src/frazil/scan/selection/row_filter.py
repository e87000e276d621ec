"""Chooses the rows of a scan: by tenant, by time, and by the predicate."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.tree import Predicate
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn


@dataclass(frozen=True)
class Tenants:
    """Lets only the rows of some tenants through."""

    column: str
    names: tuple[str, ...]
    rows: Predicate
    """It is true for their rows."""


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
    def lets_all_through(self) -> bool:
        """Returns whether there is no condition. A condition need not look at columns: it may be false for all."""
        return self.tenants is None and self.time is None and self.where is None

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
        return all_of(self.tenants.rows if self.tenants else None, self.where)

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
        return None if self.tenants is None else mask(self.tenants.rows, batch)


def _both(one: pa.BooleanArray | None, other: pa.BooleanArray) -> pa.BooleanArray:
    return other if one is None else pc.and_(one, other)
