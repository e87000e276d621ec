"""Offers the hot buffer to others: it finds recently appended records by key or offset, and returns them as rows.

Partitions and offsets are those of the source: Kafka's, or the log's for records that do not come from Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.model import Config
from frazil.errors import CallError, MessageParse, NotBuffered, QueryTooLarge, TopicNotFound
from frazil.hot import search
from frazil.hot.buffer import Buffer
from frazil.hot.feed import Feed
from frazil.hot.follower import Follower
from frazil.hot.partition_contents import PartitionContents
from frazil.hot.recency import LastRow, last_rows
from frazil.hot.row_collector import MOST_SCANNED, HotRows, RowCollector
from frazil.hot.row_decoding import TopicRowDecoder, raw_rows
from frazil.hot.row_schemas import RowSchemas
from frazil.hot.search import BufferedRecord
from frazil.lake.catalog.lake import Lake
from frazil.log.log import Log
from frazil.log.schema.columns import OFFSET
from frazil.log.schema.row_sizes import ANSWER_BYTES
from frazil.log.topics.schemas import TopicSchemas
from frazil.scan.lookup.interface import RowLookup
from frazil.scan.tenants import Tenant

LIMIT = 1000
"""An answer has this many rows unless the caller says otherwise."""
_FIRST_TRIES, _MOST_TRIES = 1, 1024
"""So many records with a key are decoded at a time while one of the tenant is searched for: first few, then more."""


class HotBuffer:
    """Is safe to use from several threads. Start it, or use it as a context manager.

    `cold` looks up rows that are not in memory.
    """

    def __init__(self, config: Config, log: Log, *, cold: RowLookup | None = None, lake: Lake | None = None) -> None:
        self._config = config
        self._log = log
        self._cold = cold
        self.buffer = Buffer(config)
        self.follower = Follower(log, self.buffer)
        self.feed = Feed(log, self.buffer, self.follower.fill)
        self._schemas = RowSchemas(config, log, lake or Lake(config))
        self._rows = TopicRowDecoder(self._schemas)

    def start(self) -> None:
        self.feed.start()
        self.follower.start()

    def stop(self) -> None:
        self.feed.stop()
        self.follower.stop()
        self._schemas.close()

    def __enter__(self) -> HotBuffer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- one record ----------------------------------------------------------------------------------------

    def query_by_key(
        self, topic: str, key: bytes | str, *, cold: bool = False, raw: bool = False, tenant: Tenant | None = None
    ) -> pa.Table | None:
        """Returns the newest row with this key, even if it has no value, or None.

        Within a partition the last one counts. Among partitions the latest Kafka timestamp decides, then the offset.
        """
        key = key.encode() if isinstance(key, str) else key
        contents = self._visible(topic)
        last: dict[int, BufferedRecord | LastRow] = {
            record.partition: record for record in self._last_with_key(topic, contents, key, tenant)
        }
        self._count(topic, bool(last))
        if cold and not self._knows_newest(topic, contents, last):
            below = {n: each.start for n, each in contents.items() if not self._lags(topic, n)}
            for row in last_rows(self._ask_cold(raw).by_key(topic, key, below, tenant)):
                if row.partition not in last or last[row.partition].offset < row.offset:
                    last[row.partition] = row
        newest = max(last.values(), key=lambda each: each.recency(), default=None)
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
        """Returns the row at this offset, or None."""
        contents = self._visible(topic).get(partition, PartitionContents())
        found = search.find_by_offset(partition, contents, offset)
        if found is not None and tenant is not None and self._first_of(topic, [found], tenant) is None:
            return None
        self._count(topic, found is not None)
        if (
            found is None
            and cold
            and (not self._has_from(topic, partition, contents, offset) or self._lags(topic, partition))
        ):
            below = None if self._lags(topic, partition) else max(contents.ascending_from, contents.start)
            return _one(self._ask_cold(raw).by_offset(topic, partition, offset, below, tenant))
        return None if found is None else self._row(topic, found, raw)

    def _last_with_key(
        self, topic: str, contents: dict[int, PartitionContents], key: bytes, tenant: Tenant | None
    ) -> Iterator[BufferedRecord]:
        """Yields, for each partition that has the key, the last record with it."""
        column = self._key_column(topic)
        for partition, each in contents.items():
            found_records = search.find_by_key(partition, each, key, column)
            found = next(found_records, None) if tenant is None else self._first_of(topic, found_records, tenant)
            if found is not None:
                yield found

    def _first_of(self, topic: str, found_records: Iterable[BufferedRecord], tenant: Tenant) -> BufferedRecord | None:
        """Returns the first record that belongs to the tenant."""
        found_records = iter(found_records)
        tries, looked_at = _FIRST_TRIES, 0
        while batch := list(islice(found_records, tries)):
            rows = self._rows.decode(topic, search.slices_at(batch), tenant).rows
            if rows.num_rows:
                best = pc.max(rows[OFFSET]).as_py()
                return next(record for record in batch if record.offset == best)
            looked_at += len(batch)
            if looked_at >= MOST_SCANNED:
                raise QueryTooLarge(
                    f"Topic {topic!r}: the newest {looked_at:,} records with this key are of others than "
                    f"{tenant.name!r}, and more were not looked at. Ask by SQL."
                )
            tries = min(tries * 4, _MOST_TRIES)
        return None

    def _row(self, topic: str, record: BufferedRecord, raw: bool) -> pa.Table:
        slices = search.slices_at([record])
        if raw:
            return raw_rows(slices)
        rows, undecodable = self._rows.decode(topic, slices)
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
    ) -> HotRows:
        """Returns at most `limit` rows from `start`, or the first in memory, up to `end`, or the newest.

        Raises `NotBuffered` when some of them may not be in memory any more, unless `cold` is set.
        """
        contents = self._visible(topic).get(partition, PartitionContents())
        begins = max(contents.ascending_from, contents.start)
        older: pa.Table | None = None
        if not self._has_from(topic, partition, contents, start):
            if not cold:
                raise self._not_buffered(topic, partition, contents)
            first = contents.first_source_offset
            stop = end if first is None or (end is not None and end < first) else first
            below = begins if contents.blocks else None
            older, following = self._ask_cold(raw).range(topic, partition, start or 0, stop, limit, below, tenant)
            if following is not None:
                return HotRows(older, next_offset=following)
        found = RowCollector(topic, self._rows, raw, tenant).take(
            partition,
            contents,
            begins if start is None else contents.find(start),
            contents.end if end is None else contents.find(end),
            limit - (0 if older is None else older.num_rows),
            ANSWER_BYTES - (0 if older is None else older.nbytes),
        )
        if older is None:
            return found
        return replace(found, rows=pa.concat_tables([older, found.rows], promote_options="permissive"))

    def query_all(
        self, topic: str, limit: int = LIMIT, *, raw: bool = False, tenant: Tenant | None = None
    ) -> HotRows:
        """Returns the newest rows in memory, at most `limit`."""
        return RowCollector(topic, self._rows, raw, tenant).newest(self._visible(topic), limit)

    def _not_buffered(self, topic: str, partition: int, contents: PartitionContents) -> NotBuffered:
        first = contents.first_source_offset
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

    def _visible(self, topic: str) -> dict[int, PartitionContents]:
        """Returns the contents of each partition, including everything that was acknowledged before."""
        self._log.check_served(topic)
        self.feed.catch_up(topic)
        partitions = self.buffer.topic(topic)
        if not partitions and TopicSchemas(self._log.store, topic).latest() is None:
            raise TopicNotFound(f"Topic {topic!r} does not exist.")
        return {partition: buffered.visible() for partition, buffered in partitions.items()}

    def _key_column(self, topic: str) -> str:
        schema = self._log.schemas(topic).known().schema
        column = self.buffer.key_column(topic, schema)
        if column is None:
            raise CallError(
                f"Topic {topic!r} has no keys: set topics.{topic}.key_column to a column that is neither a list, a "
                f"struct nor a map. Records from Kafka have their own."
            )
        return column

    def _has_from(self, topic: str, partition: int, contents: PartitionContents, offset: int | None) -> bool:
        """Returns whether memory has all records from this offset of the source on. Without an offset it asks for any
        records."""
        buffered = self.buffer.topic(topic).get(partition)
        if buffered is None or buffered.epoch is None:
            return False
        first, last = contents.first_source_offset, contents.last_source_offset
        if offset is None or contents.start == contents.ascending_from == 0:
            return True
        return offset >= first if first is not None else last is not None and offset > last

    def _lags(self, topic: str, partition: int) -> bool:
        """Returns whether the log may have newer records, because another process writes the partition."""
        buffered = self.buffer.topic(topic).get(partition)
        return buffered is None or buffered.source is None or buffered.epoch is None

    def _knows_newest(self, topic: str, contents: dict[int, PartitionContents], found: Collection[int]) -> bool:
        """Returns whether no record outside memory can be newer than those found in these partitions."""
        if len(contents) == 1:
            return bool(found)
        return bool(found) and all(
            not self._lags(topic, n) and (n in found or each.start == 0) for n, each in contents.items()
        )

    def has_older(self, topic: str) -> bool:
        """Returns whether there are records that are not in memory any more."""
        partitions = self.buffer.topic(topic).values()
        return not partitions or any(buffered.contents.start > 0 or buffered.epoch is None for buffered in partitions)

    def _ask_cold(self, raw: bool) -> RowLookup:
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
