"""What decoders have in common: batches of raw records in, rows out, and the reasons for what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa


class DecodedBatch(NamedTuple):
    """Rows of one schema. A batch whose records were written with several has one piece for each."""

    positions: pa.Array
    """Which records of the batch they are (int64), in order."""
    rows: pa.RecordBatch
    """Every column may be null."""


class Decoded(NamedTuple):
    batches: list[DecodedBatch]
    faults: Mapping[int, str]
    """The places of records that cannot be decoded, and why. Each place is in one piece or here."""


class Decoder(Protocol):
    """Belongs to anybody: it can be pickled, and what it learns is kept for the whole process.

    A registry that does not answer is a retryable `FrazilError`, never a fault of a record.
    """

    def columns(self) -> pa.Schema:
        """The columns that rows will have, as far as that is known before any record."""

    def survey(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> pa.Schema:
        """The columns that the rows of this batch have; cheaper than decoding where the format allows it.

        `known` are columns whose types are settled: those of the table. Types that clash with them are left out.
        """

    def decode(self, batch: pa.RecordBatch, known: pa.Schema | None = None) -> Decoded:
        """All records of a batch that has the columns of `formats.kafka`."""
