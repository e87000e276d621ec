"""Finds single rows in the table or in sealed segments, at one cut.

Offsets are those of the source: Kafka's own where rows come from Kafka, else those of the log. Files are not read if
their statistics rule the row out.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from frazil.config.model import Config
from frazil.formats import kafka
from frazil.lake.catalog.lake import Lake
from frazil.log.schema import columns
from frazil.scan.lookup.deadline import Deadline
from frazil.scan.lookup.interface import FirstRows
from frazil.scan.lookup.key_filter import key_filter
from frazil.scan.lookup.row_selection import FirstRowsByOffset, LastRowPerPartition
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound
from frazil.scan.pinned_topic import PinnedTopic
from frazil.scan.predicates.tree import And, Column, Comparison, Predicate
from frazil.scan.tenants import Tenant
from frazil.scan.topic_rows import TopicRows
from frazil.scan.topic_snapshot import TopicSnapshot

SECONDS = 30.0
"""A lookup takes at most this long. A key that statistics say nothing about is searched for in all files."""
_WINDOWS = (8, 256)
"""To find the first rows of a range, we search these multiples of `limit` in offsets before we search the rest.

Offsets have gaps, but seldom that many.
"""
_LARGEST = 2**63 - 1


class _Columns(NamedTuple):
    """Names the columns that say where a row was in the source."""

    partition: str
    offset: str

    @classmethod
    def of(cls, snapshot: TopicSnapshot) -> _Columns:
        if snapshot.rules.decoder is not None:
            return cls(kafka.PARTITION, kafka.OFFSET)
        return cls(columns.PARTITION, columns.OFFSET)


class ColdLookup:
    """Looks up rows that are sealed. Any number of threads may use it.

    Where `below` names a partition, only rows below that log offset count: the caller knows the others. Rows come
    back with all columns, and the result is empty when nothing is found. Raises `QueryTimeout` after `seconds`.
    """

    def __init__(self, config: Config, lake: Lake | None = None, seconds: float = SECONDS) -> None:
        self._config = config
        self._lake = lake or Lake(config)
        self._seconds = seconds
        self._idle: defaultdict[str, list[TopicRows]] = defaultdict(list)
        self._lock = threading.Lock()

    def by_key(self, topic: str, key: bytes, below: Mapping[int, int], tenant: Tenant | None = None) -> pa.Table:
        """Returns, for each partition that has the key, the last row with it."""
        deadline = Deadline(self._seconds)
        rows, snapshot = self._snapshot(topic)
        ends = {partition: end for partition, end in below.items() if partition in snapshot.partitions}
        pinned = self._pinned(rows, snapshot, tenant, LATEST, ends)
        chosen = LastRowPerPartition(pinned.schema)
        where = key_filter(self._config, topic, snapshot, key)
        if where is not None:
            _choose(pinned, where, chosen, deadline)
        return chosen.rows

    def by_offset(
        self, topic: str, partition: int, offset: int, below: int | None, tenant: Tenant | None = None
    ) -> pa.Table:
        return self.range(topic, partition, offset, offset + 1, 1, below, tenant).rows

    def range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int | None,
        limit: int,
        below: int | None,
        tenant: Tenant | None = None,
    ) -> FirstRows:
        """Returns the first rows from `start` to `end` in order. Of several rows with one offset it takes the last in
        the log."""
        deadline = Deadline(self._seconds)
        rows, snapshot = self._snapshot(topic)
        if partition not in snapshot.partitions:
            return FirstRows(snapshot.projection(None).arrow.empty_table())
        last = rows.latest(snapshot, partition) if below is None else below
        pinned = self._pinned(rows, snapshot, tenant, EARLIEST, {partition: last})
        place = _Columns.of(snapshot)
        chosen = FirstRowsByOffset(pinned.schema, place.offset, limit)
        for low, high in _windows(start, end, limit):
            offset = Column(place.offset)
            where = And((Comparison(Column(place.partition), "==", partition), Comparison(offset, ">=", low)))
            if high is not None:
                where = And((*where.children, Comparison(offset, "<", high)))
            _choose(pinned, where, chosen, deadline)
            if chosen.next_offset is not None:
                break
        return FirstRows(chosen.rows, chosen.next_offset)

    def _snapshot(self, topic: str) -> tuple[TopicRows, TopicSnapshot]:
        with self._borrowed(topic) as rows:
            return rows, rows.snapshots.take(tail=False)

    @contextmanager
    def _borrowed(self, topic: str) -> Iterator[TopicRows]:
        """Lends out a `TopicRows` to one thread at a time. It remembers the segments that it has seen."""
        with self._lock:
            idle = self._idle[topic]
            rows = idle.pop() if idle else None
        if rows is None:
            rows = TopicRows(self._config, topic, lake=self._lake)
        yield rows
        with self._lock:
            self._idle[topic].append(rows)

    def _pinned(
        self,
        rows: TopicRows,
        snapshot: TopicSnapshot,
        tenant: Tenant | None,
        otherwise: int,
        below: Mapping[int, int],
    ) -> PinnedTopic:
        ends = {
            partition: max(_start(snapshot, partition), min(end, rows.latest(snapshot, partition)))
            for partition, end in below.items()
        }
        return PinnedTopic(rows, snapshot, tenant, ends=Bound(otherwise, ends))


def _start(snapshot: TopicSnapshot, partition: int) -> int:
    return 0 if partition in snapshot.offsets else snapshot.extent(partition).start


def _windows(start: int, end: int | None, limit: int) -> Iterator[tuple[int, int | None]]:
    low = start
    for times in _WINDOWS:
        high = low + times * limit
        if high > _LARGEST or (end is not None and high >= end):
            break
        yield low, high
        low = high
    yield low, end


def _choose(
    pinned: PinnedTopic, where: Predicate, chosen: FirstRowsByOffset | LastRowPerPartition, deadline: Deadline
) -> None:
    """Reads the rows batch by batch, so that few are in memory at a time."""
    for batch in pinned.read(None, where, stopped=deadline):
        chosen.add(batch)
    deadline.check()
