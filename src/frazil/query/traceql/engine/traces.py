"""Has whole traces: their spans lie together, and each span is there once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.engine.columns import hex_texts, id_bytes, id_numbers, integers, whole_column
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.structure import child_counts, connected_parents, nested_sets, parent_rows
from frazil.query.traceql.engine.values import Column, Ints, Kind, Values
from frazil.query.traceql.parse.tree import Attribute, Field, Intrinsic


class Traces(Spans):
    def __init__(self, table: pa.Table, trace_of_row: Ints, ids: pa.Array) -> None:
        """Takes spans in the order of their traces; `assemble` makes them from spans in any order."""
        super().__init__(table)
        self.trace_of_row = trace_of_row
        self.ids = ids
        """The ids of the traces, as bytes."""
        self.first_rows: Ints = np.searchsorted(trace_of_row, np.arange(len(ids) + 1))

    @property
    def trace_count(self) -> int:
        return len(self.ids)

    @cached_property
    def longest(self) -> int:
        """The number of spans of the largest trace."""
        return int(np.diff(self.first_rows).max(initial=0))

    @cached_property
    def parents_given(self) -> Ints:
        """Returns the row of each span's parent, also of spans that no root is above."""
        column = whole_column(self.table, "parent_span_id")
        kinds = integers(whole_column(self.table, "kind"), 0)
        spans = id_numbers(whole_column(self.table, "span_id"))
        return parent_rows(self.trace_of_row, spans, id_numbers(column), kinds)

    @cached_property
    def parents(self) -> Ints:
        return connected_parents(self.parents_given, self.longest)

    @cached_property
    def trace_starts(self) -> Ints:
        return np.minimum.reduceat(self.starts, self.first_rows[:-1]) if self.trace_count else self.starts

    @cached_property
    def trace_ends(self) -> Ints:
        ends = self.starts + self.durations
        return np.maximum.reduceat(ends, self.first_rows[:-1]) if self.trace_count else ends

    @cached_property
    def roots(self) -> Ints:
        """Returns the row of each trace's root, or -1. Of several roots it is the one that starts first."""
        rows = np.flatnonzero(~id_bytes(whole_column(self.table, "parent_span_id"), 8).any(axis=1))
        rows = rows[np.argsort(self.starts[rows], kind="stable")[::-1]]
        found = np.full(self.trace_count, -1, np.int64)
        found[self.trace_of_row[rows]] = rows
        return found

    @cached_property
    def nested(self) -> tuple[Ints, Ints, Ints]:
        return nested_sets(self.parents, self.trace_of_row, self.longest)

    def root_names(self, field: Field) -> Column:
        """Returns a field of each trace's root; nil where there is no root."""
        return self.column(field).take(self.roots)

    def only(self, numbers: list[int]) -> Traces:
        """Returns these traces alone."""
        rows = np.flatnonzero(np.isin(self.trace_of_row, numbers))
        codes = np.searchsorted(np.array(numbers), self.trace_of_row[rows])
        return Traces(self.table.take(pa.array(rows)), codes, self.ids.take(pa.array(numbers)))

    def of_trace(self, field: Intrinsic) -> Column:
        match field.name:
            case "traceDuration":
                return Column(Values.of_ints(self.trace_ends - self.trace_starts, Kind.DURATION), self.trace_of_row)
            case "rootName":
                return self._of_root(Intrinsic("name"))
            case "rootServiceName":
                return self._of_root(Attribute("resource", "service.name"))
            case "span:childCount":
                return Column(Values.of_ints(child_counts(self.parents_given), Kind.INT))
        place = ("nestedSetLeft", "nestedSetRight", "nestedSetParent").index(field.name)
        return Column(Values.of_ints(self.nested[place], Kind.INT))

    def _of_root(self, field: Field) -> Column:
        names = self.root_names(field).take(self.trace_of_row)
        return names.or_else(Column(Values.of_texts(pa.array([""])), np.zeros(self.count, np.int64)))


def assemble(table: pa.Table) -> Traces:
    """Makes whole traces of spans in any order. A span that is there twice, with one id and kind, is kept once.

    Spans are sorted by trace, time and id, so that answers do not depend on where they were stored.
    """
    found = whole_column(table, "trace_id")
    if found.null_count:
        table = table.filter(found.is_valid())
        found = whole_column(table, "trace_id")
    encoded = found.cast(pa.binary(16)).dictionary_encode()
    ids = encoded.dictionary.cast(pa.binary())
    by_id = pc.array_sort_indices(ids).to_numpy()
    rank = np.empty(len(ids), np.int64)
    rank[by_id] = np.arange(len(ids))
    codes = rank[encoded.indices.to_numpy()] if len(found) else np.zeros(0, np.int64)
    loose = Spans(table)
    spans = np.ascontiguousarray(id_bytes(whole_column(table, "span_id"), 8)).view(">u8").reshape(-1)
    kinds = integers(whole_column(table, "kind"), 0)
    order = np.lexsort((kinds, spans, loose.starts, codes))
    order = order[_first_of_each(codes[order], spans[order], kinds[order])]
    return Traces(table.take(pa.array(order)), codes[order], ids.take(pa.array(by_id)))


def _first_of_each(traces: Ints, spans: Ints, kinds: Ints) -> Ints:
    """Returns the places of spans, without those that repeat an earlier one. A span without an id repeats none."""
    order = np.lexsort((kinds, spans, traces))
    repeats = np.zeros(len(order), bool)
    a, b = order[1:], order[:-1]
    same = (traces[a] == traces[b]) & (spans[a] == spans[b]) & (kinds[a] == kinds[b]) & (spans[a] != 0)
    repeats[a[same]] = True
    return np.flatnonzero(~repeats)


def trace_texts(ids: pa.Array) -> list[str]:
    """Writes ids of traces as results show them: in hexadecimal, without leading zeros."""
    digits = hex_texts(id_bytes(ids, 16)).to_pylist()
    return [text.lstrip("0") or "0" for text in digits]
