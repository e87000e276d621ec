"""Many records at once: pieces of what is held become rows until there are as many as were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.sections.section import MIB
from frazil.hot import finding
from frazil.hot.finding import Piece
from frazil.hot.held import Held
from frazil.hot.rows import MadeRows, RowsOf, Undecodable, raw_rows
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.schema.row_sizes import ANSWER_BYTES
from frazil.scan.tenants import Tenant

LOOKED_AT = 100_000
"""Records that one question looks at, at most: a tenant's may be rare among those of others."""
STEP_BYTES = 8 * MIB
"""Records that become rows at a time."""


@dataclass(frozen=True)
class Found:
    """Rows in the order of their partitions and offsets."""

    rows: pa.Table
    undecodable: list[Undecodable] = field(default_factory=list)
    """Records that were asked for but cannot become rows."""
    next_offset: int | None = None
    """Where to go on, when not everything that was asked for is here."""


@dataclass(frozen=True)
class Gatherer:
    """What is wanted of one topic."""

    topic: str
    rows: RowsOf
    raw: bool
    tenant: Tenant | None

    def take(self, partition: int, held: Held, start: int, end: int, limit: int, nbytes: int) -> Found:
        """Rows from one offset of the log to another, until there are so many or they have so many bytes."""
        gathered = _Gathered(limit, nbytes)
        while start < end and not gathered.is_enough:
            stop = finding.reach(held, start, min(end, start + gathered.missing), STEP_BYTES)
            gathered.add(self._make(finding.pieces_between(partition, held, start, stop)), stop - start)
            start = stop
        block = held.block_at(start) if start < end else None
        following = finding.source_offset_of(block, start) if block else None
        return Found(self._joined(gathered.tables), gathered.undecodable, following)

    def newest(self, held: Mapping[int, Held], limit: int) -> Found:
        """The newest rows of all partitions."""
        gathered = _Gathered(limit, ANSWER_BYTES)
        for piece in finding.newest_pieces(held, limit, STEP_BYTES):
            if gathered.is_enough:
                break
            gathered.add(self._make([_newest_of(piece, gathered.missing)]), len(piece.offsets))
        order = [(PARTITION, "ascending"), (OFFSET, "ascending")]
        return Found(self._joined(gathered.tables).sort_by(order), sorted(gathered.undecodable))

    def _make(self, pieces: list[Piece]) -> MadeRows:
        if not self.raw:
            return self.rows.make(self.topic, pieces, self.tenant)
        table = raw_rows(pieces)
        if self.tenant is not None:
            theirs = self.rows.make(self.topic, pieces, self.tenant).rows[OFFSET]
            table = table.filter(pc.is_in(table[OFFSET], value_set=theirs.combine_chunks()))
        return MadeRows(table, [])

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self.rows.empty(self.topic)
        return pa.concat_tables(tables, promote_options="permissive")


class _Gathered:
    """What there is already of so many rows and bytes."""

    def __init__(self, limit: int, nbytes: int) -> None:
        self.tables: list[pa.Table] = []
        self.undecodable: list[Undecodable] = []
        self.missing = limit
        """Rows that may be added."""
        self._bytes_left = nbytes
        self._looked_at = 0

    @property
    def is_enough(self) -> bool:
        return self.missing <= 0 or self._bytes_left <= 0 or self._looked_at >= LOOKED_AT

    def add(self, made: MadeRows, looked_at: int) -> None:
        self.tables.append(made.rows)
        self.undecodable += made.undecodable
        self.missing -= made.rows.num_rows
        self._bytes_left -= made.rows.nbytes
        self._looked_at += looked_at


def _newest_of(piece: Piece, limit: int) -> Piece:
    skipped = max(0, len(piece.offsets) - limit)
    return Piece(piece.partition, piece.offsets.slice(skipped), piece.records.slice(skipped))
