"""Makes blocks for the language of rows as a scan gives them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.formats.otlp.logs import INGEST_PROTOCOL
from frazil.formats.telemetry.attributes import TYPES
from frazil.formats.telemetry.scopes import TENANT
from frazil.query.logql.blocks import Labels
from frazil.query.logql.columns import ABSENT, Codes, Column, Mask, column_of, empty_column
from frazil.query.logql.source.label_rules import DETECTED_LEVEL, LabelRules, metadata_name
from frazil.query.logql.source.map_columns import MapEntries, run_starts

PUSHED = "loki"
TENANT_LABEL = "__tenant_id__"
"""Queries over several tenants tell them apart by this label."""
_SHORT_RUN = 4
"""Rows that follow each other with the same attributes are taken together, if they are so many on average."""
BASE_COLUMNS = ("timestamp", "timestamp_ns")
STREAM_COLUMNS = ("service_name", "resource_attributes", "scope_attributes", INGEST_PROTOCOL)
LINE_COLUMN = "body"
_IDS = ("trace_id", "span_id")
_NUMBERS = ("severity_number", "flags", "dropped_attributes_count", "scope_dropped_attributes_count")
_TEXTS = ("severity_text", "scope_name", "scope_version")
_OBSERVED = "observed_timestamp"
_MAPS = ("attributes", "scope_attributes", "resource_attributes")
METADATA_COLUMNS = (
    "attributes",
    *(name + TYPES for name in _MAPS),
    DETECTED_LEVEL,
    *_IDS,
    *_NUMBERS,
    *_TEXTS,
    _OBSERVED,
    f"{_OBSERVED}_ns",
)

Streams = tuple[list[Labels], Codes]
"""Has distinct label sets, and for each row the number of its own."""


class RowsBlock:
    """Is a batch of rows of the table `logs`. Columns that the scan was not asked for count as absent."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        rules: LabelRules,
        times_ns: NDArray[np.int64],
        streams: Streams | None = None,
    ) -> None:
        self._batch = batch
        self._rules = rules
        self._times = times_ns
        self._streams = streams
        self._metadata: dict[str, Column] = {}

    @property
    def rows(self) -> int:
        return len(self._batch)

    @property
    def times_ns(self) -> NDArray[np.int64]:
        return self._times

    @cached_property
    def lines(self) -> pa.Array:
        return pc.fill_null(self._column(LINE_COLUMN).cast(pa.string()), "")

    def _column(self, name: str) -> pa.Array:
        return plain(self._batch.column(name))

    def _has(self, name: str) -> bool:
        return name in self._batch.schema.names

    @cached_property
    def _pushed(self) -> Mask:
        """Returns which rows came by Loki's push. Rows from before that was stored are judged by what they have."""
        protocol = self._column(INGEST_PROTOCOL)
        old = pc.and_(self._column("resource_attributes").is_valid(), self._column("scope_attributes").is_null())
        return np.asarray(pc.coalesce(pc.equal(protocol, PUSHED), old))

    @cached_property
    def _resources(self) -> MapEntries:
        return MapEntries(self._column("resource_attributes"))

    @cached_property
    def _distinct_streams(self) -> Streams:
        if self._streams is not None:
            return self._streams
        found = self._labelled_streams()
        return _with_tenants(found, column_of(self._column(TENANT))) if self._has(TENANT) else found

    def _labelled_streams(self) -> Streams:
        column = self._column("resource_attributes")
        starts = run_starts(column)
        if starts is None or len(starts) * _SHORT_RUN > self.rows:
            return self._named_streams(self._resources, *self._resources.distinct())
        heads = MapEntries(column.take(pa.array(starts)))
        numbers, firsts = heads.distinct()
        return self._named_streams(heads, np.repeat(numbers, np.diff(np.append(starts, self.rows))), firsts)

    def _named_streams(
        self, entries: MapEntries, numbers_of_rows: NDArray[np.int64], firsts: NDArray[np.int64]
    ) -> Streams:
        """Returns the labels of the streams whose maps have these numbers."""
        kinds = numbers_of_rows * 2 + self._pushed
        streams: dict[tuple[tuple[str, str], ...], int] = {}
        numbers = np.full(2 * len(firsts), ABSENT, np.int32)
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            found = entries.map_of(int(firsts[kind // 2]))
            labels = self._rules.of_push(found) if kind % 2 else self._rules.of_resource(found)
            numbers[kind] = streams.setdefault(tuple(sorted(labels.items())), len(streams))
        return [dict(labels) for labels in streams], numbers[kinds]

    @property
    def streams(self) -> Sequence[Labels]:
        return self._distinct_streams[0]

    @property
    def stream_codes(self) -> Codes:
        return self._distinct_streams[1]

    @cached_property
    def _attributes(self) -> dict[str, MapEntries]:
        """Returns the maps with structured metadata; those before hide those after."""
        found = {}
        for name in _MAPS:
            if self._has(name) and self._column(name).null_count < self.rows:
                types = self._column(name + TYPES) if self._has(name + TYPES) else None
                found[name] = MapEntries(self._column(name), types)
        return found

    @cached_property
    def _keys(self) -> dict[str, dict[str, list[str]]]:
        """Returns for each name of metadata the maps that have it, and the keys there."""
        found: dict[str, dict[str, list[str]]] = {}
        for place, entries in self._attributes.items():
            for key in entries.keys:
                if place != "resource_attributes" or self._rules.is_metadata(key):
                    found.setdefault(metadata_name(key), {}).setdefault(place, []).append(key)
        return found

    @cached_property
    def _names(self) -> list[str]:
        if not self._has("attributes"):
            return []
        columns = [*_IDS, *_NUMBERS, *_TEXTS, _OBSERVED] if not self._pushed.all() else []
        if self._rules.discover_levels:
            columns.append(DETECTED_LEVEL)
        return sorted({*self._keys, *(name for name in columns if self._has(name))})

    def metadata_names(self) -> Sequence[str]:
        return self._names

    def metadata(self, name: str) -> Column:
        if name not in self._metadata:
            self._metadata[name] = self._made(name)
        return self._metadata[name]

    def _made(self, name: str) -> Column:
        found = self._of_attributes(name)
        if name == DETECTED_LEVEL:
            if self._rules.discover_levels and self._has(name):
                return found.over(column_of(self._column(name)))
            return found
        own = self._own_column(name)
        return found if own is None else found.over(own.only(~self._pushed))

    def _of_attributes(self, name: str) -> Column:
        found = empty_column(self.rows)
        for place, keys in self._keys.get(name, {}).items():
            column = self._attributes[place].column(*keys)
            # Of a pushed stream, all attributes of the resource are labels.
            found = found.over(column.only(~self._pushed) if place != "attributes" else column)
        return found

    def _own_column(self, name: str) -> Column | None:
        """Returns metadata that is a column of the table, for rows of OTLP."""
        if not self._has(name):
            return None
        if name in _IDS:
            return _hexadecimal(self._column(name))
        if name in _NUMBERS:
            numbers = self._column(name)
            return column_of(pc.if_else(pc.not_equal(numbers, 0), numbers, None).cast(pa.string()))
        if name in _TEXTS:
            texts = self._column(name)
            return column_of(pc.if_else(pc.not_equal(texts, ""), texts, None))
        if name == _OBSERVED:
            return column_of(pa.array(nanoseconds(self._batch, _OBSERVED)).cast(pa.string())).only(
                np.asarray(self._column(_OBSERVED).is_valid())
            )
        return None

    def take(self, mask: Mask) -> RowsBlock:
        """Returns the rows of the mask."""
        if mask.all():
            return self
        streams, codes = self._distinct_streams
        return RowsBlock(self._batch.filter(pa.array(mask)), self._rules, self._times[mask], (streams, codes[mask]))


def _with_tenants(streams: Streams, tenants: Column) -> Streams:
    """Adds the tenant to the labels of each stream."""
    found, codes = streams
    count = len(tenants.values)
    pairs, numbers = np.unique(codes.astype(np.int64) * count + tenants.codes, return_inverse=True)
    named: list[Labels] = [
        {**found[pair // count], TENANT_LABEL: tenants.texts[pair % count]} for pair in pairs.tolist()
    ]
    return named, np.asarray(numbers, np.int32)


def columns_of_metadata(name: str) -> tuple[str, ...]:
    """Returns the columns from which structured metadata of this name is made."""
    own = (name,) if name in (DETECTED_LEVEL, *_IDS, *_NUMBERS, *_TEXTS) else ()
    observed = (_OBSERVED, f"{_OBSERVED}_ns") if name == _OBSERVED else ()
    maps = ("attributes", *(each + TYPES for each in _MAPS))
    return tuple(dict.fromkeys((*STREAM_COLUMNS, *maps, *own, *observed)))


def plain(column: pa.Array) -> pa.Array:
    """Returns the values of a column that may have come as a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def nanoseconds(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Returns a time of the table in nanoseconds since 1970."""
    times = batch.column(name)
    if times.type.unit == "ns":
        return np.asarray(pc.fill_null(times.cast(pa.int64()), 0))
    whole = np.asarray(pc.fill_null(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()), 0)) * 1000
    if f"{name}_ns" not in batch.schema.names:
        return np.asarray(whole)
    return np.asarray(whole + np.asarray(pc.fill_null(batch.column(f"{name}_ns").cast(pa.int64()), 0)))


def _hexadecimal(ids: pa.Array) -> Column:
    encoded = ids.dictionary_encode()
    texts = [each.hex() for each in encoded.dictionary.to_pylist()]
    codes = np.asarray(pc.fill_null(encoded.indices.cast(pa.int32()), ABSENT))
    return Column(codes, pa.array(texts, pa.string()))
