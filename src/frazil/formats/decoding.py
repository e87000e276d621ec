"""Defines the interface of decoders: they take batches of raw records, and return rows and the reasons for records
that cannot be decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa


class DecodedBatch(NamedTuple):
    """Rows that share a schema. If the records of a batch were written with several schemas, there is one such batch
    for each."""

    positions: pa.Array
    """The positions of the rows' records in the decoded batch (int64, ascending)."""
    rows: pa.RecordBatch
    """Every column is nullable."""


class Decoded(NamedTuple):
    batches: list[DecodedBatch]
    faults: Mapping[int, str]
    """The positions of records that cannot be decoded, each with the reason. Every record is either in one of the
    batches or here."""


class Decoder(Protocol):
    """Decodes the records of a topic. It can be pickled, and what it learns is cached for the whole process.

    A registry that does not answer is a retryable `FrazilError`, never a fault of a record.
    """

    def columns(self) -> pa.Schema:
        """Returns the columns of the rows as far as they are known before any record is read."""

    def survey(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> pa.Schema:
        """Returns the columns that the rows of this batch have. It is cheaper than decoding where the format allows
        it.

        `known` has the columns whose types are settled, because the table has them. Columns with other types are left
        out.
        """

    def decode(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> Decoded:
        """Decodes all records of a batch, which has the columns of `formats.kafka`."""
