"""Defines what the hot buffer asks of whoever finds older rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from frazil.scan.tenants import Tenant


class FirstRows(NamedTuple):
    """Has the first rows of a range."""

    rows: pa.Table
    next_offset: int | None = None
    """The next row after these has this offset; it is None when there are no more."""


class RowLookup(Protocol):
    """Looks up rows in the table and in sealed segments. Several threads may use it at a time.

    The result has the columns of a read of the topic at that moment, and is empty when nothing was found.
    """

    def by_key(self, topic: str, key: bytes, below: Mapping[int, int], tenant: Tenant | None = None) -> pa.Table:
        """Returns, for each partition that has the key, the last row with it.

        Where `below` names a partition, only rows at smaller log offsets count.
        """

    def by_offset(
        self, topic: str, partition: int, offset: int, below: int | None, tenant: Tenant | None = None
    ) -> pa.Table:
        """Returns the row at this offset of the source."""

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
        """Returns the first rows from `start` to `end` in order. Both are offsets of the source.

        It returns at most `limit` rows, and no more bytes than an answer may have.
        """
