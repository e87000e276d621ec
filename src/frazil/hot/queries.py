"""The hot buffer as others use it: records that were just appended, as rows, by key or by offset.

Partitions and offsets are the source's own: Kafka's, and the log's for what does not come from Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.model import Config
from frazil.errors import ConfigError, NotBuffered, RecordUndecodable, TopicNotFound
from frazil.formats import kafka
from frazil.hot import finding
from frazil.hot.buffer import Buffer
from frazil.hot.cold import Cold
from frazil.hot.feed import Feed
from frazil.hot.finding import Place
from frazil.hot.following import Follower
from frazil.hot.gathering import Found, Gatherer
from frazil.hot.held import Held
from frazil.hot.rows import RowsOf, raw_rows
from frazil.hot.shapes import Shapes
from frazil.lake.catalog import Lake
from frazil.lake.columns import OFFSET
from frazil.log.log import Log
from frazil.log.topics import TopicSchemas
from frazil.ops.tenants import Tenant

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

        Among partitions, the greatest time in Kafka decides, then the offset.
        """
        key = key.encode() if isinstance(key, str) else key
        held = self._visible(topic)
        column = self._key_column(topic)
        found = self._newest_with_key(topic, held, key, column, tenant)
        self._count(topic, found is not None)
        if found is None and cold:
            return _one(self._ask_cold(raw).by_key(topic, key, self._below(topic, held), tenant))
        return None if found is None else self._row(topic, found, raw)

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
        if found is not None and tenant is not None and not self._is_of(topic, found, tenant):
            return None
        self._count(topic, found is not None)
        if (
            found is None
            and cold
            and (not self._has_from(topic, partition, held, offset) or self._lags(topic, partition))
        ):
            below = self._below(topic, {partition: held}).get(partition)
            return _one(self._ask_cold(raw).by_offset(topic, partition, offset, below, tenant))
        return None if found is None else self._row(topic, found, raw)

    def _newest_with_key(
        self, topic: str, held: dict[int, Held], key: bytes, column: str, tenant: Tenant | None
    ) -> Place | None:
        by_partition = (finding.with_key(partition, each, key, column) for partition, each in held.items())
        if tenant is None:
            places = [place for each in by_partition if (place := next(each, None)) is not None]
        else:
            found = (self._first_of(topic, each, tenant) for each in by_partition)
            places = [place for place in found if place is not None]
        return finding.newest(places) if places else None

    def _first_of(self, topic: str, places: Iterable[Place], tenant: Tenant) -> Place | None:
        """The first record that is the tenant's."""
        places = iter(places)
        tries = _FIRST_TRIES
        while batch := list(islice(places, tries)):
            rows = self._rows.make(topic, finding.pieces_at(batch), tenant).rows
            if rows.num_rows:
                best = pc.max(rows[OFFSET]).as_py()
                return next(place for place in batch if place.offset == best)
            tries = min(tries * 4, _MOST_TRIES)
        return None

    def _is_of(self, topic: str, place: Place, tenant: Tenant) -> bool:
        return self._first_of(topic, [place], tenant) is not None

    def _row(self, topic: str, place: Place, raw: bool) -> pa.Table:
        pieces = finding.pieces_at([place])
        if raw:
            return raw_rows(pieces)
        rows, undecodable = self._rows.make(topic, pieces)
        for partition, offset, reason in undecodable:
            raise RecordUndecodable(
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
            older = self._ask_cold(raw).range(topic, partition, start or 0, stop, limit + 1, below, tenant)
            if older.num_rows > limit:
                return Found(older.slice(0, limit), next_offset=_source_offset(older, limit))
        found = Gatherer(topic, self._rows, raw, tenant).take(
            partition,
            held,
            begins if start is None else held.find(start),
            held.end if end is None else held.find(end),
            limit - (0 if older is None else older.num_rows),
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
        """What is held of each partition, at one moment for all of them."""
        partitions = self.buffer.topic(topic)
        if not partitions and TopicSchemas(self._log.store, topic).latest() is None:
            raise TopicNotFound(f"Topic {topic!r} does not exist in {self._log.store.url}.")
        return {partition: kept.visible() for partition, kept in partitions.items()}

    def _key_column(self, topic: str) -> str:
        schema = self._log.schemas(topic).known().schema
        column = self.buffer.key_column(topic, schema)
        if column is None:
            raise ConfigError(
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
        return kept is None or kept.source is None

    def _below(self, topic: str, held: dict[int, Held]) -> dict[int, int]:
        """Where to stop looking for older records: what another process wrote just now may not have arrived here."""
        kept = self.buffer.topic(topic)
        return {n: each.start for n, each in held.items() if n in kept and kept[n].source is not None}

    def has_older(self, topic: str) -> bool:
        """Whether there are records that are not in memory any more."""
        partitions = self.buffer.topic(topic).values()
        return not partitions or any(kept.held.start > 0 or kept.epoch is None for kept in partitions)

    def _ask_cold(self, raw: bool) -> Cold:
        if self._cold is None:
            raise ConfigError("Nothing but memory can be read here: this process has no reader of tables.")
        if raw:
            raise ConfigError(
                "Records in their raw form are read from memory only: ask without cold, or without raw."
            )
        return self._cold

    def _count(self, topic: str, hit: bool) -> None:
        stats = self.buffer.stats(topic)
        if hit:
            stats.hits += 1
        else:
            stats.misses += 1


def _one(rows: pa.Table) -> pa.Table | None:
    return rows.slice(0, 1) if rows.num_rows else None


def _source_offset(rows: pa.Table, place: int) -> int:
    column = kafka.OFFSET if kafka.OFFSET in rows.column_names else OFFSET
    offset: int = rows[column][place].as_py()
    return offset
