"""Decodes buffered records into rows until there are as many as were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.sections.section import MIB
from frazil.hot import search
from frazil.hot.partition_contents import PartitionContents
from frazil.hot.row_decoding import DecodedRows, TopicRowDecoder, Undecodable, raw_rows
from frazil.hot.search import RecordSlice
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.schema.row_sizes import ANSWER_BYTES
from frazil.scan.tenants import Tenant

MOST_SCANNED = 100_000
"""One question scans at most this many records, because those of a tenant may be rare."""
STEP_BYTES = 8 * MIB
"""So many bytes of records are decoded at a time."""


@dataclass(frozen=True)
class HotRows:
    """Has rows in the order of their partitions and offsets."""

    rows: pa.Table
    undecodable: list[Undecodable] = field(default_factory=list)
    """These records were asked for, but cannot become rows."""
    next_offset: int | None = None
    """The answer continues at this offset when it does not have everything that was asked for."""


@dataclass(frozen=True)
class RowCollector:
    """Collects rows of one topic."""

    topic: str
    rows: TopicRowDecoder
    raw: bool
    tenant: Tenant | None

    def take(
        self, partition: int, contents: PartitionContents, start: int, end: int, limit: int, nbytes: int
    ) -> HotRows:
        """Returns rows from one log offset to another, up to `limit` rows or `nbytes` bytes."""
        collected = _CollectedRows(limit, nbytes)
        while start < end and not collected.is_enough:
            stop = search.end_within(contents, start, min(end, start + collected.missing), STEP_BYTES)
            collected.add(self._decode(search.slices_between(partition, contents, start, stop)), stop - start)
            start = stop
        block = contents.block_at(start) if start < end else None
        following = search.source_offset_of(block, start) if block else None
        return HotRows(self._joined(collected.tables), collected.undecodable, following)

    def newest(self, contents: Mapping[int, PartitionContents], limit: int) -> HotRows:
        """Returns the newest rows of all partitions."""
        collected = _CollectedRows(limit, ANSWER_BYTES)
        for record_slice in search.newest_slices(contents, limit, STEP_BYTES):
            if collected.is_enough:
                break
            collected.add(self._decode([_newest_of(record_slice, collected.missing)]), len(record_slice.offsets))
        order = [(PARTITION, "ascending"), (OFFSET, "ascending")]
        return HotRows(self._joined(collected.tables).sort_by(order), sorted(collected.undecodable))

    def _decode(self, slices: list[RecordSlice]) -> DecodedRows:
        if not self.raw:
            return self.rows.decode(self.topic, slices, self.tenant)
        table = raw_rows(slices)
        if self.tenant is not None:
            theirs = self.rows.decode(self.topic, slices, self.tenant).rows[OFFSET]
            table = table.filter(pc.is_in(table[OFFSET], value_set=theirs.combine_chunks()))
        return DecodedRows(table, [])

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self.rows.empty(self.topic)
        return pa.concat_tables(tables, promote_options="permissive")


class _CollectedRows:
    """Counts rows and bytes up to their limits."""

    def __init__(self, limit: int, nbytes: int) -> None:
        self.tables: list[pa.Table] = []
        self.undecodable: list[Undecodable] = []
        self.missing = limit
        """So many rows may still be added."""
        self._bytes_left = nbytes
        self._scanned = 0

    @property
    def is_enough(self) -> bool:
        return self.missing <= 0 or self._bytes_left <= 0 or self._scanned >= MOST_SCANNED

    def add(self, made: DecodedRows, scanned: int) -> None:
        self.tables.append(made.rows)
        self.undecodable += made.undecodable
        self.missing -= made.rows.num_rows
        self._bytes_left -= made.rows.nbytes
        self._scanned += scanned


def _newest_of(record_slice: RecordSlice, limit: int) -> RecordSlice:
    skipped = max(0, len(record_slice.offsets) - limit)
    return RecordSlice(
        record_slice.partition, record_slice.offsets.slice(skipped), record_slice.records.slice(skipped)
    )
