"""Records that were found become rows, as the topic's table has them: only these records are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from frazil.formats import kafka
from frazil.hot.finding import Piece
from frazil.hot.shapes import RowShape, Shapes
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.tenants import Tenant, own_rows

_TRIES = 10


class Undecodable(NamedTuple):
    """A record that is in the log but cannot become a row: the table will not have it either."""

    partition: int
    offset: int
    """The source's own, as rows are asked for."""
    reason: str


class MadeRows(NamedTuple):
    rows: pa.Table
    undecodable: list[Undecodable]


class RowsOf:
    """Makes rows of any topic. Thread-safe."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def make(self, topic: str, pieces: Sequence[Piece], tenant: Tenant | None = None) -> MadeRows:
        """All rows have one schema. With a tenant, what cannot be decoded is left out: nobody knows whose it is."""
        shape = self._shape(topic, pieces)
        for _ in range(_TRIES):
            made, wanted = _attempt(shape, pieces)
            if not wanted:
                break
            shape = self._shapes.widen(topic, shape, *wanted)
        return made if tenant is None else MadeRows(only(made.rows, tenant), [])

    def empty(self, topic: str) -> pa.Table:
        return self._shapes.of(topic).schema.empty_table()

    def _shape(self, topic: str, pieces: Sequence[Piece]) -> RowShape:
        shape = self._shapes.of(topic)
        if shape.rules.decoder is None:
            unknown = {piece.records.schema for piece in pieces if not shape.covers(piece.records.schema)}
            if unknown:
                return self._shapes.widen(topic, shape, *unknown)
        return shape


def _attempt(shape: RowShape, pieces: Sequence[Piece]) -> tuple[MadeRows, list[pa.Schema]]:
    """The rows, and the columns that they should have as well."""
    batches: list[pa.RecordBatch] = []
    undecodable: list[Undecodable] = []
    wanted: list[pa.Schema] = []
    for piece in pieces:
        made = shape.maker.make_at(piece.records, piece.partition, piece.offsets)
        wanted += made.wanted
        batches.append(pa.RecordBatch.from_arrays(made.batch.columns, schema=shape.schema))
        if made.misfits is not None:
            undecodable += _told(piece, made.misfits.rows)
    return MadeRows(pa.Table.from_batches(batches, shape.schema), undecodable), wanted


def _told(piece: Piece, misfits: pa.Table) -> list[Undecodable]:
    column = kafka.OFFSET if kafka.is_kafka(piece.records.schema) else OFFSET
    return [
        Undecodable(piece.partition, offset, reason)
        for offset, reason in zip(misfits[column].to_pylist(), misfits["error"].to_pylist(), strict=True)
    ]


def only(rows: pa.Table, tenant: Tenant) -> pa.Table:
    """The rows of one tenant; none if they do not say whose they are."""
    if tenant.column not in rows.column_names:
        return rows.slice(0, 0)
    return rows.filter(own_rows(tenant, rows.schema))


def raw_rows(pieces: Sequence[Piece]) -> pa.Table:
    """The records as the log has them, with where they are in it."""
    tables = []
    for piece in pieces:
        table = pa.Table.from_batches([piece.records])
        partitions = pa.repeat(pa.scalar(piece.partition, pa.int32()), table.num_rows)
        tables.append(table.append_column(PARTITION, partitions).append_column(OFFSET, piece.offsets))
    return pa.concat_tables(tables, promote_options="permissive")
