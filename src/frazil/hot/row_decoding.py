"""Records that were found become rows, as the topic's table has them: only these records are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from frazil.formats import kafka
from frazil.hot.row_schemas import RowSchema, RowSchemas
from frazil.hot.search import RecordSlice
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.tenants import Tenant, own_rows

_TRIES = 10


class Undecodable(NamedTuple):
    """A record that is in the log but cannot become a row: the table will not have it either."""

    partition: int
    offset: int
    """The source's own, as rows are asked for."""
    reason: str


class DecodedRows(NamedTuple):
    rows: pa.Table
    undecodable: list[Undecodable]


class TopicRowDecoder:
    """Makes rows of any topic. Thread-safe."""

    def __init__(self, schemas: RowSchemas) -> None:
        self._schemas = schemas

    def decode(self, topic: str, slices: Sequence[RecordSlice], tenant: Tenant | None = None) -> DecodedRows:
        """All rows have one schema. With a tenant, what cannot be decoded is left out: nobody knows whose it is."""
        row_schema = self._schema(topic, slices)
        for _ in range(_TRIES):
            decoded, wanted = _attempt(row_schema, slices)
            if not wanted:
                break
            row_schema = self._schemas.widen(topic, row_schema, *wanted)
        return decoded if tenant is None else DecodedRows(tenant_rows(decoded.rows, tenant), [])

    def empty(self, topic: str) -> pa.Table:
        return self._schemas.of(topic).schema.empty_table()

    def _schema(self, topic: str, slices: Sequence[RecordSlice]) -> RowSchema:
        row_schema = self._schemas.of(topic)
        if row_schema.rules.decoder is None:
            unknown = {
                record_slice.records.schema
                for record_slice in slices
                if not row_schema.covers(record_slice.records.schema)
            }
            if unknown:
                return self._schemas.widen(topic, row_schema, *unknown)
        return row_schema


def _attempt(row_schema: RowSchema, slices: Sequence[RecordSlice]) -> tuple[DecodedRows, list[pa.Schema]]:
    """The rows, and the columns that they should have as well."""
    batches: list[pa.RecordBatch] = []
    undecodable: list[Undecodable] = []
    wanted: list[pa.Schema] = []
    for record_slice in slices:
        decoded = row_schema.decoder_for_thread.decode_at(
            record_slice.records, record_slice.partition, record_slice.offsets
        )
        wanted += decoded.wanted
        batches.append(pa.RecordBatch.from_arrays(decoded.batch.columns, schema=row_schema.schema))
        if decoded.misfits is not None:
            undecodable += _failures_of(record_slice, decoded.misfits.rows)
    return DecodedRows(pa.Table.from_batches(batches, row_schema.schema), undecodable), wanted


def _failures_of(record_slice: RecordSlice, misfits: pa.Table) -> list[Undecodable]:
    column = kafka.OFFSET if kafka.is_kafka(record_slice.records.schema) else OFFSET
    return [
        Undecodable(record_slice.partition, offset, reason)
        for offset, reason in zip(misfits[column].to_pylist(), misfits["error"].to_pylist(), strict=True)
    ]


def tenant_rows(rows: pa.Table, tenant: Tenant) -> pa.Table:
    """The rows of one tenant; none if they do not say whose they are."""
    if tenant.column not in rows.column_names:
        return rows.slice(0, 0)
    return rows.filter(own_rows(tenant, rows.schema))


def raw_rows(slices: Sequence[RecordSlice]) -> pa.Table:
    """The records as the log has them, with where they are in it."""
    tables = []
    for record_slice in slices:
        table = pa.Table.from_batches([record_slice.records])
        partitions = pa.repeat(pa.scalar(record_slice.partition, pa.int32()), table.num_rows)
        tables.append(table.append_column(PARTITION, partitions).append_column(OFFSET, record_slice.offsets))
    return pa.concat_tables(tables, promote_options="permissive")
