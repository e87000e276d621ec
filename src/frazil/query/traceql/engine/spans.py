"""Has spans as arrays: what a field of a query is for each of them, and for each of their events and links."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.engine.attribute_maps import AttributeMap
from frazil.query.traceql.engine.columns import hex_texts, id_bytes, integers, nanoseconds, whole_column
from frazil.query.traceql.engine.fields import ATTRIBUTE_COLUMNS, OF_TRACE, element_kind, is_service_name
from frazil.query.traceql.engine.values import Bools, Column, Ints, Kind, Values
from frazil.query.traceql.parse.names import KINDS, STATUSES
from frazil.query.traceql.parse.tree import Attribute, Field, Intrinsic


class Spans:
    """Has some spans, one in a row. They need not be whole traces."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.count = len(table)
        self._columns: dict[Field, Column] = {}
        self._maps: dict[str, AttributeMap] = {}
        self._elements: dict[str, Elements] = {}

    def column(self, field: Field) -> Column:
        """Returns the value of a field for each span. Of events and links it is that of the last one that has it."""
        if field not in self._columns:
            self._columns[field] = self._made(field)
        return self._columns[field]

    def elements(self, kind: str) -> Elements:
        """Returns the events or the links of the spans."""
        if kind not in self._elements:
            self._elements[kind] = Elements(self, kind)
        return self._elements[kind]

    def attributes(self, column: str) -> AttributeMap:
        if column not in self._maps:
            types = whole_column(self.table, column + "_types")
            self._maps[column] = AttributeMap(whole_column(self.table, column), types)
        return self._maps[column]

    @cached_property
    def starts(self) -> Ints:
        return nanoseconds(self.table, "timestamp")

    @cached_property
    def durations(self) -> Ints:
        """A span that ends before it starts, or whose times are unknown, takes no time."""
        return np.maximum(integers(whole_column(self.table, "duration_nanos"), 0), 0)

    def _made(self, field: Field) -> Column:
        kind = element_kind(field)
        if kind is not None:
            return self.elements(kind).last(field)
        if isinstance(field, Attribute):
            return self._attribute(field)
        if field.name in OF_TRACE:
            return self.of_trace(field)
        return self._intrinsic(field.name)

    def _attribute(self, field: Attribute) -> Column:
        if is_service_name(field):
            return Column.of_dictionary(whole_column(self.table, "service_name"))
        if not field.scope:
            own = self.column(Attribute("span", field.name))
            return own.or_else(self.column(Attribute("resource", field.name)))
        return self.attributes(ATTRIBUTE_COLUMNS[field.scope]).column(field.name)

    def _intrinsic(self, name: str) -> Column:
        match name:
            case "duration":
                return Column(Values.of_ints(self.durations, Kind.DURATION))
            case "name":
                return self._texts("name")
            case "statusMessage":
                return self._texts("status_message")
            case "instrumentation:name":
                return self._texts("scope_name")
            case "instrumentation:version":
                return self._texts("scope_version")
            case "status":
                return self._codes("status_code", Kind.STATUS, len(STATUSES))
            case "kind":
                return self._codes("kind", Kind.KIND, len(KINDS))
            case "trace:id":
                return self._hex("trace_id", 16)
            case "span:id":
                return self._hex("span_id", 8)
        return self._hex("parent_span_id", 8)

    def of_trace(self, field: Intrinsic) -> Column:
        """Returns a field that depends on the whole trace of a span."""
        raise NotImplementedError(f"{field} needs whole traces")

    def _texts(self, name: str) -> Column:
        """Returns a column of texts, which are empty where there are none."""
        column = whole_column(self.table, name)
        column = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        return Column.of_dictionary(column.fill_null("") if column.null_count else column)

    def _codes(self, name: str, kind: Kind, count: int) -> Column:
        """Returns a column of codes. One that nobody knows has no word, and is nil."""
        codes = integers(whole_column(self.table, name), 0)
        return Column(Values.of_ints(np.arange(count), kind), np.where((codes >= 0) & (codes < count), codes, -1))

    def _hex(self, name: str, width: int) -> Column:
        texts = hex_texts(id_bytes(whole_column(self.table, name), width))
        if name == "trace_id":
            return Column.of_dictionary(texts)
        return Column(Values.of_texts(texts))


class Elements:
    """Has the events, or the links, of some spans, one in a row. A field of the span is the same for all of them.

    A span without any has one row of nil, so that conditions of which only a part is about events find it.
    """

    def __init__(self, spans: Spans, kind: str) -> None:
        self.kind = kind
        self._spans = spans
        lists = whole_column(spans.table, kind + "s")
        self._own: Ints = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
        self._structs = lists.flatten()
        without = np.ones(spans.count, bool)
        without[self._own] = False
        self.owners: Ints = np.concatenate([self._own, np.flatnonzero(without)])
        self._places: Ints = np.where(np.arange(len(self.owners)) < len(self._own), np.arange(len(self.owners)), -1)
        self.count = len(self.owners)
        self._columns: dict[Field, Column] = {}

    @cached_property
    def attributes(self) -> AttributeMap:
        return AttributeMap(self._field("attributes"), self._field("attributes_types"))

    def column(self, field: Field) -> Column:
        if field not in self._columns:
            own = element_kind(field) == self.kind
            if own:
                self._columns[field] = self._made(field).take(self._places)
            else:
                self._columns[field] = self._spans.column(field).take(self.owners)
        return self._columns[field]

    def exists(self, found: Bools) -> Bools:
        """Tells which spans have an element that was found."""
        result = np.zeros(self._spans.count, bool)
        result[self.owners[found]] = True
        return result

    def last(self, field: Field) -> Column:
        """Returns for each span the value of its last element that has one. The name of no event is empty."""
        column = self.column(field)
        rows = np.full(self._spans.count, -1, np.int64)
        known = np.flatnonzero(column.known)
        rows[self.owners[known]] = known
        found = column.take(rows)
        if str(field) == "event:name":
            return found.or_else(Column(Values.of_texts(pa.array([""])), np.zeros(self._spans.count, np.int64)))
        return found

    def _made(self, field: Field) -> Column:
        if isinstance(field, Attribute):
            return self.attributes.column(field.name)
        match field.name:
            case "event:name":
                return Column.of_dictionary(self._field("name").fill_null(""))
            case "event:timeSinceStart":
                times = integers(self._field("time_unix_nano"), 0)
                return Column(Values.of_ints(times - self._spans.starts[self._own], Kind.DURATION))
            case "link:traceID":
                return self._hex("trace_id")
        return self._hex("span_id")

    def _hex(self, name: str) -> Column:
        """Returns ids as texts. They may have any length, so that they are written one by one."""
        ids = self._field(name).dictionary_encode()
        texts = pa.array([each.hex() for each in ids.dictionary.to_pylist()], pa.string())
        codes = ids.indices.fill_null(-1).to_numpy().astype(np.int64)
        return Column(Values.of_texts(texts), codes)

    def _field(self, name: str) -> pa.Array:
        return self._structs.field(name)
