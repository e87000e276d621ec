"""Decodes records that were found into rows, as the topic's table has them. Other records are not decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from frazil.formats import kafka
from frazil.hot.row_schemas import RowSchema, RowSchemas
from frazil.hot.search import RecordSlice
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.predicates.arrow import to_arrow
from frazil.scan.tenants import Tenant, own_rows

_TRIES = 10


class Undecodable(NamedTuple):
    """Is a record of the log that cannot become a row, and will not be in the table either."""

    partition: int
    offset: int
    """This is the source's own offset, by which rows are asked for."""
    reason: str


class DecodedRows(NamedTuple):
    rows: pa.Table
    undecodable: list[Undecodable]


class TopicRowDecoder:
    """Decodes records of any topic. It is safe to use from several threads."""

    def __init__(self, schemas: RowSchemas) -> None:
        self._schemas = schemas

    def decode(self, topic: str, slices: Sequence[RecordSlice], tenant: Tenant | None = None) -> DecodedRows:
        """Decodes the records into rows of one schema.

        With a tenant, records that cannot be decoded are left out, because nobody knows whose they are.
        """
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
    """Returns the rows, and the columns that they should have in addition."""
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
    """Returns the rows of one tenant, or none if the rows do not have the tenant column."""
    if tenant.column not in rows.column_names:
        return rows.slice(0, 0)
    return rows.filter(to_arrow(own_rows(tenant, rows.schema), rows.schema))


def raw_rows(slices: Sequence[RecordSlice]) -> pa.Table:
    """Returns the records as the log has them, with their partitions and offsets."""
    tables = []
    for record_slice in slices:
        table = pa.Table.from_batches([record_slice.records])
        partitions = pa.repeat(pa.scalar(record_slice.partition, pa.int32()), table.num_rows)
        tables.append(table.append_column(PARTITION, partitions).append_column(OFFSET, record_slice.offsets))
    return pa.concat_tables(tables, promote_options="permissive")
