"""Defines the interface of value decoders, which decode the keys or the values of records in one format.

`formats.records` combines two of them, one for keys and one for values, with the columns that Kafka adds.
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
    """The bytes (`binary`, perhaps a slice of another array); null if the record has no key or value."""
    schema_ids: pa.Array | None = None
    """The schema id from the record's header (`binary`), null where there is none; None if no record of the batch has
    one."""


class DecodedColumn(NamedTuple):
    """Values that were decoded with one schema."""

    positions: Positions
    column: pa.Array
    """The values, one for each position. If they are records, this is a struct without nulls, whose fields become
    columns."""


class DecodedValues(NamedTuple):
    """The decoded values of a batch. Each position is in one of the columns, or in the faults, or has a null value,
    which is in neither."""

    columns: list[DecodedColumn]
    faults: Mapping[int, str]
    """The positions that cannot be decoded, each with the reason for people to read."""


class ValueDecoder(Protocol):
    """Decodes keys or values. It can be pickled; what it gets from elsewhere, such as a registry, is cached per
    process and not in the decoder.

    `known` has the settled columns of the values under the names that the data has for them: the columns of the table
    that come from the value. Values that are not records have one column, `value`.
    """

    records: bool
    """This says whether values are records as a rule. If so, an extra column tells a null value from a record of
    nulls."""

    def kinds(self) -> Iterable[pa.DataType]:
        """Returns the types of values that are known before any value is read: a struct for records, nothing if no
        type is known."""

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        """Returns the types of the columns that `decode` would return, more cheaply if possible, without a record's
        fields that clash with `known`."""

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        """Decodes the values. They may have any type that a table can store, and all nested values are nullable."""
