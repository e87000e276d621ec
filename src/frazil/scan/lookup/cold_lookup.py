"""Finds single rows in the table or in sealed segments, at one cut.

Offsets are those of the source: Kafka's own where rows come from Kafka, else those of the log. Files are not read if
their statistics rule the row out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.formats import kafka
from frazil.lake.catalog.lake import Lake
from frazil.log.schema import columns
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.interface import ScanRequest
from frazil.scan.lookup.deadline import Deadline
from frazil.scan.lookup.interface import FirstRows
from frazil.scan.lookup.key_filter import key_filter
from frazil.scan.lookup.row_selection import FirstRowsByOffset, LastRowPerPartition
from frazil.scan.predicates.tree import And, Column, Comparison, Predicate
from frazil.scan.scanner import TopicScanner
from frazil.scan.tenants import Tenant
from frazil.scan.topic_snapshot import TopicSnapshot

SECONDS = 30.0
"""A lookup takes at most this long. A key that statistics say nothing about is searched for in all files."""
_WINDOWS = (8, 256)
"""To find the first rows of a range, we search these multiples of `limit` in offsets before we search the rest.

Offsets have gaps, but seldom that many.
"""
_LARGEST = 2**63 - 1
MEMORY_BYTES = 64 * MIB
"""So much is remembered between lookups."""


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
        self._scanner = TopicScanner(config, lake, memory_bytes=MEMORY_BYTES)
        self._seconds = seconds

    def by_key(self, topic: str, key: bytes, below: Mapping[int, int], tenant: Tenant | None = None) -> pa.Table:
        """Returns, for each partition that has the key, the last row with it."""
        deadline = Deadline(self._seconds)
        cut = self._scanner.sealed(topic)
        ends = {partition: min(end, below.get(partition, end)) for partition, end in cut.offsets.items()}
        pinned = cut.pin(_request(topic, tenant), ends if below else None)
        chosen = LastRowPerPartition(pinned.schema)
        where = key_filter(self._config, topic, cut.snapshot, key)
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
        cut = self._scanner.sealed(topic)
        if partition not in cut.offsets:
            return FirstRows(cut.snapshot.projection(None).arrow.empty_table())
        last = cut.offsets[partition] if below is None else min(below, cut.offsets[partition])
        pinned = cut.pin(_request(topic, tenant), {partition: last})
        place = _Columns.of(cut.snapshot)
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


def _request(topic: str, tenant: Tenant | None) -> ScanRequest:
    return ScanRequest(topic, None if tenant is None else (tenant.name,))


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
    pinned: PinnedScan, where: Predicate, chosen: FirstRowsByOffset | LastRowPerPartition, deadline: Deadline
) -> None:
    """Reads the rows batch by batch, so that few are in memory at a time."""
    for batch in pinned.read(None, where, stopped=deadline):
        chosen.add(batch)
    deadline.check()
