"""What the buffer asks of those who know where older rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from frazil.scan.tenants import Tenant


class FirstRows(NamedTuple):
    """The first rows of a range."""

    rows: pa.Table
    next_offset: int | None = None
    """Where to go on, when there are more."""


class RowLookup(Protocol):
    """Rows of the table and of sealed segments. Several threads may ask at a time.

    What comes back has the columns of a read of the topic at that moment; it is empty when nothing was found.
    """

    def by_key(self, topic: str, key: bytes, below: Mapping[int, int], tenant: Tenant | None = None) -> pa.Table:
        """The last row with this key of each partition that has one.

        Of partitions in `below`, only offsets of the log that are less count.
        """

    def by_offset(
        self, topic: str, partition: int, offset: int, below: int | None, tenant: Tenant | None = None
    ) -> pa.Table:
        """The row of this offset of the source."""

    def range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int | None,
        limit: int,
        below: int | None,
        tenant: Tenant | None = None,
    ) -> FirstRows:
        """The first rows from `start` to `end`, which are offsets of the source, in their order.

        At most `limit` rows, and no more bytes than an answer may have.
        """
