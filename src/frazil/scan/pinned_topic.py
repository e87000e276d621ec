"""Pins a topic at one cut, so that repeated reads of table and log give the same rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property

import pyarrow as pa
from pyiceberg.schema import Schema

from frazil.errors import CallError, ConfigError
from frazil.log.topics.naming import hint
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound
from frazil.scan.predicates.arrow_expressions import Translated
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.tree import Predicate
from frazil.scan.prefetch import read_ahead
from frazil.scan.tenants import Tenant, own_rows
from frazil.scan.topic_rows import TopicRows
from frazil.scan.topic_snapshot import TopicSnapshot

_FROM_START = Bound(EARLIEST)
_TO_END = Bound(LATEST)


class PinnedTopic:
    """Reads a topic as it was in `snapshot`. Any thread may read.

    `tenant` limits all reads to the rows of one tenant. `starts` and `ends` are log offsets.
    """

    def __init__(
        self,
        rows: TopicRows,
        snapshot: TopicSnapshot,
        tenant: Tenant | None = None,
        starts: Bound = _FROM_START,
        ends: Bound = _TO_END,
    ) -> None:
        self.topic = rows.topic
        self._rows = rows
        self._snapshot = snapshot
        self._tenant = tenant
        self._starts = starts
        self._ends = ends
        rows.check_partitions(snapshot, starts, ends)
        if tenant is not None and tenant.column not in self.schema.names:
            raise ConfigError(f"topics.{self.topic}.tenant_column: there is no column {tenant.column!r}.")

    @cached_property
    def schema(self) -> pa.Schema:
        return self._snapshot.projection(None).arrow

    @property
    def complete(self) -> bool:
        """Returns whether every record is seen that was acknowledged before: not if a tail is on another machine, or
        in the memory of another process."""
        return all(extent.has_tail for extent in self._snapshot.extents.values())

    @property
    def iceberg_schema(self) -> Schema:
        return self._snapshot.schema

    @property
    def offsets(self) -> dict[int, int]:
        """Returns the cut: the rows are below these log offsets."""
        given = self._ends.given
        return {
            partition: given.get(partition, self._rows.latest(self._snapshot, partition))
            for partition in self._snapshot.partitions
        }

    def select_columns(self, columns: Sequence[str] | None) -> list[str]:
        """Returns the columns asked for, or all. Raises `CallError` for a column that does not exist."""
        names = self.schema.names
        for column in columns or ():
            if column not in names:
                raise CallError(f"Topic {self.topic!r} has no column {column!r}.{hint(column, names)}")
        return names if columns is None else list(columns)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | Translated | None = None,
        stopped: threading.Event | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows for which `where` is true, in no order, with these columns.

        It ends early when `stopped` is set.
        """
        wanted = self.select_columns(columns)
        given = where if isinstance(where, Translated) else Translated(where, None, ())
        extra = [name for name in given.columns if name not in wanted] if given.rest is not None else []
        own = None if self._tenant is None else own_rows(self._tenant, self.schema)
        plan = self._rows.plan_at(
            self._snapshot,
            self._starts,
            self._ends,
            columns=lambda _: [*wanted, *extra],
            where=all_of(own, given.predicate),
        )
        for batch in read_ahead([task.read for task in plan.tasks], stopped):
            rows = batch if given.rest is None else batch.filter(given.rest)
            if len(rows):
                yield rows.select(wanted) if extra else rows
