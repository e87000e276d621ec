"""Plans the scans of one topic: takes a cut, chooses files, and adds the log behind them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import CallError, ConfigError, TopicNotFound
from frazil.lake.catalog.lake import Lake
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.topics.naming import existing_topic, hint
from frazil.log.topics.schemas import list_topics
from frazil.scan.decode import RowDecoder
from frazil.scan.execution.cut import Cut, Memory, RowRules, TablePlan
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.execution.topic_scan import ChosenFiles, TopicScan
from frazil.scan.interface import UNIT_ROWS, ScanRequest
from frazil.scan.log_extents import Tails
from frazil.scan.log_location import LogLocation
from frazil.scan.log_rows.decoding import LogDecoder
from frazil.scan.log_rows.tail_blocks import TailBlocks
from frazil.scan.log_rows.units import LogReading, LogUnit
from frazil.scan.planning.pruning import foremost_files, matching_files
from frazil.scan.predicates.arrow import check
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.terms import columns_of
from frazil.scan.selection.row_filter import RowFilter, Tenants, TimeRange
from frazil.scan.selection.row_reader import RowReader, rows_without_columns
from frazil.scan.selection.tally import Tally
from frazil.scan.selection.time_column import TimeColumn, required_time_column, time_column
from frazil.scan.table.data_files import DataFiles
from frazil.scan.table.units import TableReading
from frazil.scan.tenants import rows_of
from frazil.scan.topic_snapshot import TopicSnapshot, TopicSnapshots
from frazil.store import open_store

DELETED_SECONDS = 1.0
"""A topic that was deleted may be seen this long."""

_OWN_BYTES = 16 * 1024
"""A topic takes about this much by itself, also one that does not exist."""

_serials = itertools.count(1)


@dataclass(frozen=True)
class SealedCut:
    """Is a cut without the tail, of which lookups read parts."""

    snapshot: TopicSnapshot
    offsets: dict[int, int]
    pin: Callable[[ScanRequest, Mapping[int, int] | None], PinnedScan]
    """Limits reads to the rows of some partitions below some offsets, if they are given."""


class ScannedTopic:
    """Is thread-safe."""

    def __init__(self, config: Config, topic: str, lake: Lake, tails: Tails | None, memory: Memory) -> None:
        self._config = config
        self._topic = topic
        self._memory = memory
        self._store = open_store(config.store, config.data_dir.absolute(), read_only=True)
        self._snapshots = TopicSnapshots(config, LogLocation.of(config, topic), "both", lake, tails)
        self._tail = TailBlocks(memory.tails)
        self._rules: RowRules | None = None
        self._plan: TablePlan | None = None
        self._seen = float("-inf")
        self._lock = threading.Lock()
        self._from_memory = False
        self.asked = float("-inf")
        """When a scan was asked for, by the monotonic clock."""

    @property
    def nbytes(self) -> int:
        return _OWN_BYTES + self._snapshots.remembered.nbytes

    @property
    def tail_bytes(self) -> int:
        return self._tail.nbytes

    def shrink_tail(self, limit: int) -> None:
        """Forgets decoded rows of the tail until the rest has at most `limit` bytes."""
        self._tail.shrink(limit)

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
            for partition, wanted in cut.log_ranges.items():
                self._tail.decode_new(decoder, partition, cut.snapshot.extents[partition], wanted)

    def sealed(self) -> SealedCut:
        """Makes a cut without the tail."""
        cut = self._cut(tail=False)

        def pinned(request: ScanRequest, below: Mapping[int, int] | None) -> PinnedScan:
            return PinnedScan(request, partial(self._at, replace(cut, below=below)), cut.snapshot.schema)

        return SealedCut(cut.snapshot, cut.offsets, pinned)

    def _cut(self, *, tail: bool = True) -> Cut:
        with self._lock:
            self._check_exists()
            snapshot = self._snapshot(tail)
            if tail:
                self._from_memory = any(extent.tail is not None for extent in snapshot.extents.values())
            return Cut(snapshot, self._rules_of(snapshot), self._plan_of(snapshot))

    def _at(self, cut: Cut, request: ScanRequest, stopped: threading.Event | None) -> TopicScan:
        schema = cut.rules.schema
        time = self._time(request, schema)
        tally = Tally()
        tally.statistics.complete = all(extent.has_tail for extent in cut.snapshot.extents.values())
        where = all_of(cut.limit, request.where)
        reader = RowReader(
            schema, self._columns(request, schema), self._filter(replace(request, where=where), schema, time)
        )
        return TopicScan(
            reader,
            self._files(cut.plan, cut.rules, reader, time, tally, request) if cut.plan is not None else None,
            partial(self._log_units, cut, reader, time, tally),
            partial(self._log_offsets, cut, reader, tally) if _needs_offsets_only(cut.rules, reader) else None,
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

    def _snapshot(self, tail: bool) -> TopicSnapshot:
        try:
            return self._snapshots.take(tail=tail)
        except TopicNotFound as error:
            raise TopicNotFound(f"{error}{hint(self._topic, list_topics(self._store))}") from error

    def _rules_of(self, snapshot: TopicSnapshot) -> RowRules:
        known = self._rules
        if known is None or known.rules is not snapshot.rules or known.records is not snapshot.records:
            schema = snapshot.projection(None).arrow
            keeps_all = snapshot.records is not None and RowDecoder(snapshot.rules).keeps_all(snapshot.records)
            known = self._rules = RowRules(snapshot.rules, snapshot.records, schema, next(_serials), keeps_all)
        return known

    def _plan_of(self, snapshot: TopicSnapshot) -> TablePlan | None:
        table = snapshot.table
        if table is None:
            return None
        known = self._plan
        if known is None or known.table is not table or known.rules is not snapshot.rules:
            files = self._snapshots.remembered.files(table)
            same_rules = known is not None and known.rules is snapshot.rules and _same_columns(known.table, table)
            # The table of each load may have other credentials for its files.
            like = known.reader if known is not None and same_rules else None
            reader = DataFiles(table, snapshot.schema, self._memory.footers, like)
            known = self._plan = TablePlan(table, snapshot.rules, files, reader)
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
        self,
        plan: TablePlan,
        rules: RowRules,
        reader: RowReader,
        time: TimeColumn | None,
        tally: Tally,
        request: ScanRequest,
    ) -> ChosenFiles:
        index = plan.files.index
        bounds = plan.bounds(time) if time is not None else None
        matching = np.flatnonzero(matching_files(index, plan.table.metadata, reader.schema, reader.filter, bounds))
        places = foremost_files(matching, bounds, request.max_files, newest=request.order == "newest first")
        tally.files(len(places), len(index) - len(matching), len(matching) - len(places))
        key = (rules.serial, self._topic, *_tenants_key(reader.filter))
        reading = TableReading(plan.reader, reader, time, self._memory.groups, tally, key, rules.serial)
        return ChosenFiles(reading, places, plan.file, bounds)

    def _log_units(self, cut: Cut, reader: RowReader, time: TimeColumn | None, tally: Tally) -> list[LogUnit]:
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
        return [
            unit
            for partition, wanted in cut.log_ranges.items()
            for unit in reading.units(partition, cut.snapshot.extents[partition], wanted)
        ]

    def _decoder(self, rules: RowRules, time: TimeColumn | None) -> LogDecoder | None:
        if rules.records is None:
            return None
        return LogDecoder(self._topic, self._store, rules.rules, rules.records, time, rules.serial)

    def _log_offsets(self, cut: Cut, reader: RowReader, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the log without decoding them."""
        schema = reader.selected(reader.columns)
        for partition, (start, end) in cut.log_ranges.items():
            tally.log(end - start)
            for first in range(start, end, UNIT_ROWS):
                rows = min(UNIT_ROWS, end - first)
                tally.read(rows, rows)
                columns = {PARTITION: pa.repeat(partition, rows), OFFSET: pa.arange(first, first + rows)}
                found = [columns[field.name].cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(found, schema=schema) if found else rows_without_columns(rows)


def _needs_offsets_only(rules: RowRules, reader: RowReader) -> bool:
    return rules.keeps_all and reader.filter.lets_all_through and set(reader.columns) <= {PARTITION, OFFSET}


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
