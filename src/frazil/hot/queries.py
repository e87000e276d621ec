"""The hot buffer as others use it: records that were just appended, as rows, by key or by offset.

Partitions and offsets are the source's own: Kafka's, and the log's for what does not come from Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.model import Config
from frazil.errors import CallError, MessageParse, NotBuffered, QueryTooLarge, TopicNotFound
from frazil.hot import finding
from frazil.hot.ages import LastRow, last_rows
from frazil.hot.buffer import Buffer
from frazil.hot.feed import Feed
from frazil.hot.finding import Place
from frazil.hot.following import Follower
from frazil.hot.gathering import LOOKED_AT, Found, Gatherer
from frazil.hot.held import Held
from frazil.hot.rows import RowsOf, raw_rows
from frazil.hot.shapes import Shapes
from frazil.lake.catalog.lake import Lake
from frazil.log.log import Log
from frazil.log.schema.columns import OFFSET
from frazil.log.schema.row_sizes import ANSWER_BYTES
from frazil.log.topics.schemas import TopicSchemas
from frazil.scan.lookup.interface import Cold
from frazil.scan.tenants import Tenant

LIMIT = 1000
"""Rows of an answer, unless another number is asked for."""
_FIRST_TRIES, _MOST_TRIES = 1, 1024
"""Records with a key that are decoded at a time while one of a tenant is looked for."""


class HotBuffer:
    """Thread-safe. Start it, or use it as a context manager; `cold` is who is asked for what is not in memory."""

    def __init__(self, config: Config, log: Log, *, cold: Cold | None = None, lake: Lake | None = None) -> None:
        self._config = config
        self._log = log
        self._cold = cold
        self.buffer = Buffer(config)
        self.follower = Follower(log, self.buffer)
        self.feed = Feed(log, self.buffer, self.follower.fill)
        self._shapes = Shapes(config, log, lake or Lake(config))
        self._rows = RowsOf(self._shapes)

    def start(self) -> None:
        self.feed.start()
        self.follower.start()

    def stop(self) -> None:
        self.feed.stop()
        self.follower.stop()
        self._shapes.close()

    def __enter__(self) -> HotBuffer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- one record ----------------------------------------------------------------------------------------

    def query_by_key(
        self, topic: str, key: bytes | str, *, cold: bool = False, raw: bool = False, tenant: Tenant | None = None
    ) -> pa.Table | None:
        """The newest row with this key, one without a value too; None when there is none.

        In a partition the last one counts. Among partitions, the greatest time in Kafka decides, then the offset.
        """
        key = key.encode() if isinstance(key, str) else key
        held = self._visible(topic)
        last: dict[int, Place | LastRow] = {
            place.partition: place for place in self._last_with_key(topic, held, key, tenant)
        }
        self._count(topic, bool(last))
        if cold and not self._knows_newest(topic, held, last):
            below = {n: each.start for n, each in held.items() if not self._lags(topic, n)}
            for row in last_rows(self._ask_cold(raw).by_key(topic, key, below, tenant)):
                if row.partition not in last or last[row.partition].offset < row.offset:
                    last[row.partition] = row
        newest = max(last.values(), key=lambda each: each.age(), default=None)
        if isinstance(newest, LastRow):
            return newest.row
        return None if newest is None else self._row(topic, newest, raw)

    def query_by_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        cold: bool = False,
        raw: bool = False,
        tenant: Tenant | None = None,
    ) -> pa.Table | None:
        """The row of this partition and offset; None when there is none."""
        held = self._visible(topic).get(partition, Held())
        found = finding.at_source(partition, held, offset)
        if found is not None and tenant is not None and self._first_of(topic, [found], tenant) is None:
            return None
        self._count(topic, found is not None)
        if (
            found is None
            and cold
            and (not self._has_from(topic, partition, held, offset) or self._lags(topic, partition))
        ):
            below = None if self._lags(topic, partition) else max(held.stretch, held.start)
            return _one(self._ask_cold(raw).by_offset(topic, partition, offset, below, tenant))
        return None if found is None else self._row(topic, found, raw)

    def _last_with_key(self, topic: str, held: dict[int, Held], key: bytes, tenant: Tenant | None) -> Iterator[Place]:
        """The last record with this key of each partition that has one."""
        column = self._key_column(topic)
        for partition, each in held.items():
            places = finding.with_key(partition, each, key, column)
            found = next(places, None) if tenant is None else self._first_of(topic, places, tenant)
            if found is not None:
                yield found

    def _first_of(self, topic: str, places: Iterable[Place], tenant: Tenant) -> Place | None:
        """The first record that is the tenant's."""
        places = iter(places)
        tries, looked_at = _FIRST_TRIES, 0
        while batch := list(islice(places, tries)):
            rows = self._rows.make(topic, finding.pieces_at(batch), tenant).rows
            if rows.num_rows:
                best = pc.max(rows[OFFSET]).as_py()
                return next(place for place in batch if place.offset == best)
            looked_at += len(batch)
            if looked_at >= LOOKED_AT:
                raise QueryTooLarge(
                    f"Topic {topic!r}: the newest {looked_at:,} records with this key are of others than "
                    f"{tenant.name!r}, and more were not looked at. Ask by SQL."
                )
            tries = min(tries * 4, _MOST_TRIES)
        return None

    def _row(self, topic: str, place: Place, raw: bool) -> pa.Table:
        pieces = finding.pieces_at([place])
        if raw:
            return raw_rows(pieces)
        rows, undecodable = self._rows.make(topic, pieces)
        for partition, offset, reason in undecodable:
            raise MessageParse(
                f"Topic {topic!r}: the record of partition {partition}, offset {offset} cannot become a row: "
                f"{reason.rstrip('.')}. Ask with raw=true for its bytes."
            )
        return rows

    # --- many records --------------------------------------------------------------------------------------

    def query_range(
        self,
        topic: str,
        partition: int,
        start: int | None = None,
        end: int | None = None,
        limit: int = LIMIT,
        *,
        cold: bool = False,
        raw: bool = False,
        tenant: Tenant | None = None,
    ) -> Found:
        """Rows from `start`, or the first in memory, to before `end`, or the newest: at most `limit` of them.

        `NotBuffered` when some of them may be no longer in memory, unless older ones are to be read too.
        """
        held = self._visible(topic).get(partition, Held())
        begins = max(held.stretch, held.start)
        older: pa.Table | None = None
        if not self._has_from(topic, partition, held, start):
            if not cold:
                raise self._not_buffered(topic, partition, held)
            first = held.first_source_offset
            stop = end if first is None or (end is not None and end < first) else first
            below = begins if held.blocks else None
            older, following = self._ask_cold(raw).range(topic, partition, start or 0, stop, limit, below, tenant)
            if following is not None:
                return Found(older, next_offset=following)
        found = Gatherer(topic, self._rows, raw, tenant).take(
            partition,
            held,
            begins if start is None else held.find(start),
            held.end if end is None else held.find(end),
            limit - (0 if older is None else older.num_rows),
            ANSWER_BYTES - (0 if older is None else older.nbytes),
        )
        if older is None:
            return found
        return replace(found, rows=pa.concat_tables([older, found.rows], promote_options="permissive"))

    def query_all(self, topic: str, limit: int = LIMIT, *, raw: bool = False, tenant: Tenant | None = None) -> Found:
        """The newest rows in memory, at most `limit`."""
        return Gatherer(topic, self._rows, raw, tenant).newest(self._visible(topic), limit)

    def _not_buffered(self, topic: str, partition: int, held: Held) -> NotBuffered:
        first = held.first_source_offset
        if first is None:
            there = ", ".join(map(str, sorted(self.buffer.topic(topic)))) or "none"
            reason = f"no record of partition {partition} is in memory (partitions: {there}). Ask with cold=true"
        else:
            reason = (
                f"records of partition {partition} before offset {first} are not in memory any more. Ask with "
                f"cold=true to have them read, or from {first} on"
            )
        return NotBuffered(f"Topic {topic!r}: {reason}.", first)

    # --- what there is -------------------------------------------------------------------------------------

    def _visible(self, topic: str) -> dict[int, Held]:
        """What is held of each partition, with all that was acknowledged before."""
        self._log.check_served(topic)
        self.feed.catch_up(topic)
        partitions = self.buffer.topic(topic)
        if not partitions and TopicSchemas(self._log.store, topic).latest() is None:
            raise TopicNotFound(f"Topic {topic!r} does not exist.")
        return {partition: kept.visible() for partition, kept in partitions.items()}

    def _key_column(self, topic: str) -> str:
        schema = self._log.schemas(topic).known().schema
        column = self.buffer.key_column(topic, schema)
        if column is None:
            raise CallError(
                f"Topic {topic!r} has no keys: set topics.{topic}.key_column to a column that is neither a list, a "
                f"struct nor a map. Records from Kafka have their own."
            )
        return column

    def _has_from(self, topic: str, partition: int, held: Held, offset: int | None) -> bool:
        """Whether all records from this offset of the source on are in memory; those there are, without one."""
        kept = self.buffer.topic(topic).get(partition)
        if kept is None or kept.epoch is None:
            return False
        first, last = held.first_source_offset, held.last_source_offset
        if offset is None or held.start == held.stretch == 0:
            return True
        return offset >= first if first is not None else last is not None and offset > last

    def _lags(self, topic: str, partition: int) -> bool:
        """Whether the log may have more of the partition already: it is written by another process."""
        kept = self.buffer.topic(topic).get(partition)
        return kept is None or kept.source is None or kept.epoch is None

    def _knows_newest(self, topic: str, held: dict[int, Held], found: Collection[int]) -> bool:
        """Whether nothing that is not in memory can be newer than what was found in these partitions."""
        if len(held) == 1:
            return bool(found)
        return bool(found) and all(
            not self._lags(topic, n) and (n in found or each.start == 0) for n, each in held.items()
        )

    def has_older(self, topic: str) -> bool:
        """Whether there are records that are not in memory any more."""
        partitions = self.buffer.topic(topic).values()
        return not partitions or any(kept.held.start > 0 or kept.epoch is None for kept in partitions)

    def _ask_cold(self, raw: bool) -> Cold:
        if self._cold is None:
            raise CallError("Nothing but memory can be read here: this process has no reader of tables.")
        if raw:
            raise CallError("Records in their raw form are read from memory only: ask without cold, or without raw.")
        return self._cold

    def _count(self, topic: str, hit: bool) -> None:
        stats = self.buffer.stats(topic)
        if hit:
            stats.hits += 1
        else:
            stats.misses += 1


def _one(rows: pa.Table) -> pa.Table | None:
    return rows.slice(0, 1) if rows.num_rows else None
