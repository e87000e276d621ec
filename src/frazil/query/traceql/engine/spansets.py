"""Has spansets: lists of spans of one trace, with what the stages of a pipeline found out about them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from frazil.query.traceql.engine.traces import Traces
from frazil.query.traceql.engine.values import Bools, Ints, Values


@dataclass(frozen=True)
class SetAttribute:
    """Is a value that each spanset has, as `count()` or `by(name)`."""

    name: str
    values: Values


@dataclass(frozen=True)
class Spansets:
    """Has rows in the order of their sets, and sets in the order of their traces. No set is empty."""

    rows: Ints
    set_of_row: Ints
    """The number of the set of each of the rows."""
    trace_of_set: Ints
    attributes: tuple[SetAttribute, ...] = field(default=())

    @classmethod
    def all_of(cls, traces: Traces) -> Spansets:
        """Returns one spanset for each trace, with all of its spans."""
        return cls(np.arange(traces.count), traces.trace_of_row, np.arange(traces.trace_count))

    @property
    def count(self) -> int:
        return len(self.trace_of_set)

    @property
    def one_for_each_trace(self) -> bool:
        return len(np.unique(self.trace_of_set)) == self.count

    def sizes(self) -> Ints:
        return np.bincount(self.set_of_row, minlength=self.count).astype(np.int64)

    def any_of(self, chosen: Bools) -> Bools:
        """Tells which sets have one of the chosen rows; `chosen` is in the order of the rows."""
        found = np.zeros(self.count, bool)
        found[self.set_of_row[chosen]] = True
        return found

    def keep_rows(self, chosen: Bools) -> Spansets:
        """Keeps some rows, and the sets that still have one."""
        kept = self.any_of(chosen)
        return replace(self, rows=self.rows[chosen], set_of_row=self.set_of_row[chosen])._keep_numbers(kept)

    def keep_sets(self, kept: Bools) -> Spansets:
        chosen = kept[self.set_of_row]
        return replace(self, rows=self.rows[chosen], set_of_row=self.set_of_row[chosen])._keep_numbers(kept)

    def _keep_numbers(self, kept: Bools) -> Spansets:
        places = np.flatnonzero(kept)
        numbers = np.cumsum(kept) - 1
        attributes = tuple(SetAttribute(each.name, each.values.take(places)) for each in self.attributes)
        return Spansets(self.rows, numbers[self.set_of_row], self.trace_of_set[places], attributes)

    def with_attribute(self, name: str, values: Values) -> Spansets:
        return replace(self, attributes=(*self.attributes, SetAttribute(name, values)))

    def split(self, codes: Ints, name: str, values: Values) -> Spansets:
        """Splits each set by the codes of its rows, which are those of `values`."""
        keys = self.set_of_row * (len(values) + 1) + codes
        found, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(numbers, kind="stable")
        sets = self.set_of_row[first]
        attributes = tuple(SetAttribute(each.name, each.values.take(sets)) for each in self.attributes)
        split = Spansets(self.rows[order], numbers[order], self.trace_of_set[sets], attributes)
        return split.with_attribute(name, values.take(codes[first])) if len(found) else split

    def coalesce(self) -> Spansets:
        """Joins the sets of each trace, and forgets what was found out about them."""
        traces, numbers = np.unique(self.trace_of_set, return_inverse=True)
        sets = numbers[self.set_of_row]
        order = np.lexsort((self.rows, sets))
        rows, sets = self.rows[order], sets[order]
        first = np.ones(len(rows), bool)
        first[1:] = (rows[1:] != rows[:-1]) | (sets[1:] != sets[:-1])
        return Spansets(rows[first], sets[first], traces)
