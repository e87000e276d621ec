"""Plans the scans of one topic: takes a cut, chooses files, and adds the log behind them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from frazil.config.model import Config
from frazil.errors import CallError, ConfigError, TopicNotFound
from frazil.lake.catalog.lake import Lake
from frazil.log.topics.naming import existing_topic, hint
from frazil.log.topics.schemas import list_topics
from frazil.scan.decode import DecodingRules
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.execution.topic_scan import ChosenFiles, TopicScan
from frazil.scan.interface import ScanRequest
from frazil.scan.log_extents import LogExtent, Tails
from frazil.scan.log_location import LogLocation
from frazil.scan.log_rows.decoding import LogDecoder
from frazil.scan.log_rows.tail_blocks import TailBlocks
from frazil.scan.log_rows.units import LogReading, LogUnit
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.planning.pruning import TimeBounds, file_time_bounds, matching_files
from frazil.scan.planning.remembered_table import TableFiles
from frazil.scan.predicates.arrow import check
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.terms import columns_of
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.selection.row_filter import RowFilter, Tenants, TimeRange
from frazil.scan.selection.row_reader import RowReader
from frazil.scan.selection.tally import Tally
from frazil.scan.selection.time_column import TimeColumn, required_time_column, time_column
from frazil.scan.table.data_files import DataFiles, TableFile
from frazil.scan.table.units import TableReading
from frazil.scan.tenants import rows_of
from frazil.scan.topic_snapshot import TopicSnapshot, TopicSnapshots
from frazil.store import open_store

DELETED_SECONDS = 1.0
"""A topic that was deleted may be seen this long."""

_serials = itertools.count(1)


class Memory:
    """Shares the memory of a scanner among what it remembers."""

    def __init__(self, limit: int) -> None:
        self.plans = limit // 4
        """Snapshots and their files may take so much."""
        self.tails = limit // 4
        self.footers = BoundedCache(limit // 8)
        self.groups = BoundedCache(limit // 4)
        self.segments = BoundedCache(limit // 8)
        self.bounds = BoundedCache(limit // 128)


@dataclass(frozen=True)
class _Rules:
    """Is what rows of the topic look like at the moment, with all that is derived from it."""

    rules: DecodingRules
    records: pa.Schema | None
    schema: pa.Schema
    serial: int


@dataclass(frozen=True)
class _Plan:
    """Is what is known of the files of one snapshot."""

    table: Table
    rules: DecodingRules
    files: TableFiles
    reader: DataFiles
    times: dict[TimeColumn, TimeBounds] = field(default_factory=dict)

    def bounds(self, column: TimeColumn) -> TimeBounds:
        if column not in self.times:
            self.times[column] = file_time_bounds(self.files.index, self.table.schema(), column)
        return self.times[column]

    def file(self, place: int) -> TableFile:
        index = self.files.index
        file = index.data_file(place)
        return TableFile(file, self.files.deletes.get(file.file_path, ()), self._constants(place))

    def _constants(self, place: int) -> tuple[tuple[int, Any], ...]:
        index = self.files.index
        values = index.partitions[place]
        spec = self.table.metadata.specs().get(int(index.spec_ids[place])) if values else None
        return tuple(
            (each.source_id, values[at])
            for at, each in enumerate(spec.fields if spec is not None else ())
            if isinstance(each.transform, IdentityTransform) and values[at] is not None
        )


@dataclass(frozen=True)
class _Cut:
    snapshot: TopicSnapshot
    rules: _Rules
    plan: _Plan | None

    @property
    def offsets(self) -> dict[int, int]:
        snapshot = self.snapshot
        return {each: max(snapshot.offsets.get(each, 0), snapshot.extent(each).end) for each in snapshot.partitions}


class ScannedTopic:
    """Is thread-safe."""

    def __init__(self, config: Config, topic: str, lake: Lake, tails: Tails | None, memory: Memory) -> None:
        self._config = config
        self._topic = topic
        self._memory = memory
        self._store = open_store(config.store, config.data_dir.absolute(), read_only=True)
        self._snapshots = TopicSnapshots(config, LogLocation.of(config, topic), "both", lake, tails)
        self._tail = TailBlocks(memory.tails)
        self._rules: _Rules | None = None
        self._plan: _Plan | None = None
        self._seen = float("-inf")
        self._lock = threading.Lock()
        self._from_memory = False
        self.asked = float("-inf")
        """When a scan was asked for, by the monotonic clock."""

    @property
    def nbytes(self) -> int:
        return self._snapshots.remembered.nbytes

    def scan(self, request: ScanRequest, stopped: threading.Event | None) -> TopicScan:
        self.asked = time.monotonic()
        return self._at(self._cut(), request, stopped)

    def pin(self, request: ScanRequest) -> PinnedScan:
        self.asked = time.monotonic()
        cut = self._cut()
        return PinnedScan(request, partial(self._at, cut), cut.snapshot.schema)

    def decode_new(self) -> None:
        """Decodes what came since the last scan, so that the next one finds it decoded.

        A tail that other processes have in memory is left alone: each look at it moves all of it.
        """
        if self._from_memory:
            return
        cut = self._cut()
        decoder = self._decoder(cut.rules, time_column(self._config, self._topic, cut.rules.schema))
        if decoder is not None:
            for partition, extent, wanted in _unmoved(cut.snapshot):
                self._tail.decode_new(decoder, partition, extent, wanted)

    def _cut(self) -> _Cut:
        with self._lock:
            self._check_exists()
            snapshot = self._snapshot()
            self._from_memory = any(extent.tail is not None for extent in snapshot.extents.values())
            return _Cut(snapshot, self._rules_of(snapshot), self._plan_of(snapshot))

    def _at(self, cut: _Cut, request: ScanRequest, stopped: threading.Event | None) -> TopicScan:
        schema = cut.rules.schema
        time = self._time(request, schema)
        tally = Tally()
        tally.statistics.complete = all(extent.has_tail for extent in cut.snapshot.extents.values())
        reader = RowReader(schema, self._columns(request, schema), self._filter(request, schema, time))
        return TopicScan(
            reader,
            self._files(cut.plan, cut.rules, reader, time, tally) if cut.plan is not None else None,
            partial(self._log_units, cut, reader, time, tally),
            cut.offsets,
            tally,
            time=time,
            order=request.order,
            limit=request.limit,
            stopped=stopped,
            narrowed=lambda columns, also: self._at(
                cut, replace(request, columns=columns, where=all_of(request.where, also)), stopped
            ),
        )

    def _check_exists(self) -> None:
        now = time.monotonic()
        if now - self._seen >= DELETED_SECONDS:
            existing_topic(self._store, self._topic)
            self._seen = now

    def _snapshot(self) -> TopicSnapshot:
        try:
            return self._snapshots.take(tail=True)
        except TopicNotFound as error:
            raise TopicNotFound(f"{error}{hint(self._topic, list_topics(self._store))}") from error

    def _rules_of(self, snapshot: TopicSnapshot) -> _Rules:
        known = self._rules
        if known is None or known.rules is not snapshot.rules or known.records is not snapshot.records:
            schema = snapshot.projection(None).arrow
            known = self._rules = _Rules(snapshot.rules, snapshot.records, schema, next(_serials))
        return known

    def _plan_of(self, snapshot: TopicSnapshot) -> _Plan | None:
        table = snapshot.table
        if table is None:
            return None
        known = self._plan
        if known is None or known.table is not table or known.rules is not snapshot.rules:
            files = self._snapshots.remembered.files(table)
            same_rules = known is not None and known.rules is snapshot.rules and _same_columns(known.table, table)
            reader = known.reader if known is not None and same_rules else None
            if reader is None:
                reader = DataFiles(table, snapshot.schema, self._memory.footers)
            known = self._plan = _Plan(table, snapshot.rules, files, reader)
        return known

    def _columns(self, request: ScanRequest, schema: pa.Schema) -> tuple[str, ...]:
        names = schema.names
        for column in request.columns or ():
            if column not in names:
                raise CallError(f"Topic {self._topic!r} has no column {column!r}.{hint(column, names)}")
        return tuple(names) if request.columns is None else request.columns

    def _time(self, request: ScanRequest, schema: pa.Schema) -> TimeColumn | None:
        if request.order != "none" or request.start_ns is not None or request.end_ns is not None:
            return required_time_column(self._config, self._topic, schema)
        return time_column(self._config, self._topic, schema)

    def _filter(self, request: ScanRequest, schema: pa.Schema, time: TimeColumn | None) -> RowFilter:
        tenants = None
        column = self._config.topic(self._topic).tenant_column
        if request.tenants is not None and column:
            if column not in schema.names:
                raise ConfigError(f"topics.{self._topic}.tenant_column: there is no column {column!r}.")
            tenants = Tenants(column, request.tenants, rows_of(column, request.tenants, schema))
        limited = request.start_ns is not None or request.end_ns is not None
        within = TimeRange(time, request.start_ns, request.end_ns) if limited and time is not None else None
        if request.where is not None:
            check(request.where, schema)
        return RowFilter(tenants, within, request.where, columns_of(request.where, schema.names))

    def _files(
        self, plan: _Plan, rules: _Rules, reader: RowReader, time: TimeColumn | None, tally: Tally
    ) -> ChosenFiles:
        index = plan.files.index
        bounds = plan.bounds(time) if time is not None else None
        places = np.flatnonzero(matching_files(index, plan.table.metadata, reader.schema, reader.filter, bounds))
        tally.files(len(places), len(index) - len(places))
        key = (rules.serial, self._topic, *_tenants_key(reader.filter))
        reading = TableReading(plan.reader, reader, time, self._memory.groups, tally, key, rules.serial)
        return ChosenFiles(reading, places, plan.file, bounds)

    def _log_units(self, cut: _Cut, reader: RowReader, time: TimeColumn | None, tally: Tally) -> list[LogUnit]:
        decoder = self._decoder(cut.rules, time)
        if decoder is None:
            return []
        reading = LogReading(
            decoder,
            reader,
            self._tail,
            self._memory.segments,
            self._memory.bounds,
            tally,
            _tenants_key(reader.filter),
        )
        found: list[LogUnit] = []
        for partition, extent, wanted in _unmoved(cut.snapshot):
            found += reading.units(partition, extent, wanted)
        return found

    def _decoder(self, rules: _Rules, time: TimeColumn | None) -> LogDecoder | None:
        if rules.records is None:
            return None
        return LogDecoder(self._topic, self._store, rules.rules, rules.records, time, rules.serial)


def _unmoved(snapshot: TopicSnapshot) -> Iterator[tuple[int, LogExtent, OffsetRange]]:
    """Yields the partitions whose log has records that the table does not have, and which these are."""
    for partition, extent in sorted(snapshot.extents.items()):
        wanted = OffsetRange(max(extent.start, snapshot.offsets.get(partition, 0)), extent.end)
        if wanted.rows:
            yield partition, extent, wanted


def _tenants_key(wanted: RowFilter) -> tuple[object, ...]:
    return () if wanted.tenants is None else tuple(sorted(wanted.tenants.names))


def _same_columns(one: Table, other: Table) -> bool:
    first, second = one.metadata, other.metadata
    return (
        first.table_uuid == second.table_uuid
        and first.current_schema_id == second.current_schema_id
        and first.properties.get("schema.name-mapping.default")
        == second.properties.get("schema.name-mapping.default")
    )
