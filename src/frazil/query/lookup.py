"""Single rows, found wherever they are: in the table or in sealed segments, at one cut.

Offsets are those of the source: Kafka's own where rows come from Kafka, else those of the log. Files whose statistics
say that they cannot have the row are not read.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.model import Config
from frazil.formats import kafka
from frazil.lake import columns
from frazil.lake.catalog import Lake
from frazil.lake.rows.cut import EARLIEST, LATEST, Bound
from frazil.lake.rows.look import Look
from frazil.lake.rows.topic import TopicRows
from frazil.ops.tenants import Tenant
from frazil.query.keys import key_filter
from frazil.query.pinned import Pinned

Order = Sequence[tuple[str, str]]

_WINDOWS = (8, 256)
"""For the first rows of a range, so many times their number of offsets are looked at before all are.

Offsets have gaps, but seldom so many.
"""


class _Columns(NamedTuple):
    """Where a row says its place in the source."""

    partition: str
    offset: str
    newest: Order

    @classmethod
    def of(cls, look: Look) -> _Columns:
        if look.rules.decoder is not None:
            newest = ((kafka.TIMESTAMP, "descending"), (kafka.OFFSET, "descending"))
            return cls(kafka.PARTITION, kafka.OFFSET, newest)
        # Partitions of a log know no order among each other: the higher offset is as good as any.
        newest = ((columns.OFFSET, "descending"), (columns.PARTITION, "descending"))
        return cls(columns.PARTITION, columns.OFFSET, newest)


class ColdLookup:
    """Any number of threads may ask. Rows that are not sealed are not seen.

    Of partitions in `below`, only rows below that log offset count: the rest is known to whoever asks. Rows come back
    with all columns; none when nothing is found.
    """

    def __init__(self, config: Config, lake: Lake | None = None) -> None:
        self._config = config
        self._lake = lake or Lake(config)
        self._idle: defaultdict[str, list[TopicRows]] = defaultdict(list)
        self._lock = threading.Lock()

    def by_key(self, topic: str, key: bytes, below: Mapping[int, int], tenant: Tenant | None = None) -> pa.Table:
        """The newest row with this key: the one with the latest time in Kafka, then the highest offset."""
        rows, look = self._look(topic)
        ends = {partition: end for partition, end in below.items() if partition in look.partitions}
        pinned = self._pinned(rows, look, tenant, LATEST, ends)
        where = key_filter(self._config, topic, look, key)
        return pinned.schema.empty_table() if where is None else _first(pinned, where, _Columns.of(look).newest, 1)

    def by_offset(
        self, topic: str, partition: int, offset: int, below: int | None, tenant: Tenant | None = None
    ) -> pa.Table:
        return self.range(topic, partition, offset, offset + 1, 1, below, tenant)

    def range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int | None,
        limit: int,
        below: int | None,
        tenant: Tenant | None = None,
    ) -> pa.Table:
        """The first rows from `start` to `end`, in their order."""
        rows, look = self._look(topic)
        if partition not in look.partitions:
            return look.shape(None).arrow.empty_table()
        last = rows.latest(look, partition) if below is None else below
        pinned = self._pinned(rows, look, tenant, EARLIEST, {partition: last})
        place = _Columns.of(look)
        found = pinned.schema.empty_table()
        for low, high in _windows(start, end, limit):
            where = (pc.field(place.partition) == partition) & (pc.field(place.offset) >= low)
            if high is not None:
                where &= pc.field(place.offset) < high
            more = _first(pinned, where, ((place.offset, "ascending"),), limit - len(found))
            found = pa.concat_tables([found, more])
            if len(found) >= limit:
                break
        return found

    def _look(self, topic: str) -> tuple[TopicRows, Look]:
        with self._borrowed(topic) as rows:
            return rows, rows.looker.look(tail=False)

    @contextmanager
    def _borrowed(self, topic: str) -> Iterator[TopicRows]:
        """One thread at a time may look with one; it remembers segments that it has seen."""
        with self._lock:
            idle = self._idle[topic]
            rows = idle.pop() if idle else None
        if rows is None:
            rows = TopicRows(self._config, topic, lake=self._lake)
        yield rows
        with self._lock:
            self._idle[topic].append(rows)

    def _pinned(
        self, rows: TopicRows, look: Look, tenant: Tenant | None, otherwise: int, below: Mapping[int, int]
    ) -> Pinned:
        ends = {
            partition: max(_start(look, partition), min(end, rows.latest(look, partition)))
            for partition, end in below.items()
        }
        return Pinned(rows, look, tenant, ends=Bound(otherwise, ends))


def _start(look: Look, partition: int) -> int:
    return 0 if partition in look.offsets else look.extent(partition).start


def _windows(start: int, end: int | None, limit: int) -> Iterator[tuple[int, int | None]]:
    low = start
    for times in _WINDOWS:
        high = low + times * limit
        if end is not None and high >= end:
            break
        yield low, high
        low = high
    yield low, end


def _first(pinned: Pinned, where: pc.Expression, order: Order, limit: int) -> pa.Table:
    """The first rows by this order; few are in memory at a time."""
    found = pinned.schema.empty_table()
    for batch in pinned.read(None, where):
        rows = pa.concat_tables([found, pa.Table.from_batches([batch], pinned.schema)])
        found = rows.take(pc.sort_indices(rows, sort_keys=list(order))[:limit])
    return found
