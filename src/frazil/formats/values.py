"""Keys and values one format at a time: what a decoder of single byte strings is, without all that Kafka adds.

`formats.records` puts two of them, one for keys and one for values, together with the rest of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
"""Positions in a batch, ascending."""


class Payloads(NamedTuple):
    """The keys or the values of a batch of records."""

    values: pa.Array
    """`binary`, perhaps a slice of another array; null where the record has none."""
    schema_ids: pa.Array | None = None
    """`binary`: where a header says which schema it is, what it says; None if no record of the batch has one."""


class DecodedColumn(NamedTuple):
    """What was written with one schema."""

    positions: Positions
    column: pa.Array
    """As long as `places`. A struct if values are records: its fields become columns; it has no nulls itself."""


class DecodedValues(NamedTuple):
    """Each place is in one part, or in the faults, or has a null (of which nothing is said)."""

    columns: list[DecodedColumn]
    faults: Mapping[int, str]
    """Why a place cannot be decoded, for people."""


class ValueDecoder(Protocol):
    """Can be pickled. What comes from elsewhere (a registry) is kept per process, not in here.

    `known` are the settled columns of what is decoded, by the names that the data has for them: those of the table,
    without all that is not from the value. What is not a record has one column, `value`.
    """

    records: bool
    """Whether values are records as a rule; there is a column then that tells a null from a record of nulls."""

    def kinds(self) -> Iterable[pa.DataType]:
        """The types of values as far as they are known before any: a struct for records; none if nothing is known."""

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        """The types of `decode`'s parts, cheaper if possible; a record's fields that clash with `known` left out."""

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        """Values may be of any type that `lake.types` knows; all parts of them nullable."""
