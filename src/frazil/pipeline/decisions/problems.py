"""Finds the problems that stop a topic, table by table, without changing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import (
    CatalogRefused,
    EpochChanged,
    FrazilError,
    OffsetsAhead,
    SchemaEvolution,
    SegmentsGone,
    StorageError,
    TableDropped,
    TableReplaced,
    TableRolledBack,
    TopicNotFound,
)
from frazil.formats.topic_decoder import open_decoder
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.config_checks import check_base_layout, check_derived_layout
from frazil.lake.evolution import plan_following
from frazil.lake.tables.adoption import check_adoption
from frazil.lake.tables.table_check import TableCheck, TableStatus, check_table
from frazil.lake.tables.tables import Role, base_identifier, dead_letter_identifier, derived_identifier
from frazil.log.topics.schemas import TopicSchemas
from frazil.pipeline.move.next_batch_schemas import first_batch_columns, next_batch_schemas
from frazil.scan.consistency import check_against_log
from frazil.scan.log_extents import LogExtents
from frazil.store import ObjectStore

Decision = Literal["accept-schema", "dead-letter", "replay", "accept", "recreate"]

_OFFERED: dict[type[FrazilError], dict[Role, tuple[Decision, ...]]] = {
    TableDropped: {"base": ("recreate",), "dead-letter": ("recreate",), "derived": ("recreate",)},
    TableReplaced: {"base": ("accept",), "dead-letter": ("accept",), "derived": ("accept",)},
    TableRolledBack: {"base": ("replay", "accept"), "dead-letter": ("accept",), "derived": ("replay", "accept")},
    EpochChanged: {"base": ("accept", "recreate"), "dead-letter": ("recreate",), "derived": ("accept", "recreate")},
    OffsetsAhead: {"base": ("recreate",), "dead-letter": ("recreate",), "derived": ("accept", "recreate")},
    SegmentsGone: {"base": ("accept",)},
    SchemaEvolution: {"base": ("accept-schema", "dead-letter")},
}
"""The decisions that help with a problem, by the role of the table."""

_LOOKS = 3


@dataclass(frozen=True)
class TopicTable:
    """A table that a topic has according to the settings. It may not exist yet."""

    identifier: Identifier
    role: Role

    @property
    def name(self) -> str:
        return dotted(self.identifier)


@dataclass(frozen=True)
class TableProblem:
    table: TopicTable
    error: FrazilError
    decisions: tuple[Decision, ...]
    """The decisions that would solve it."""


class TopicExamination:
    """Examines a topic. Each table is read when it is asked about, and the log after it."""

    def __init__(self, config: Config, lake: Lake, store: ObjectStore, topic: str) -> None:
        self.config = config
        self.lake = lake
        self.store = store
        self.topic = topic
        newest = TopicSchemas(store, topic).latest()
        if newest is None:
            raise TopicNotFound(f"Topic {topic!r} has no schema in {store.url}.")
        self._schema = newest.schema
        self._decoder = open_decoder(config, topic, newest.schema)
        self._log = LogExtents(store, topic, config.data_dir)
        self.extents = self._log.current(tail=False)

    def columns(self) -> pa.Schema:
        """Returns the columns with which a base table of the topic would be created."""
        if self._decoder is None:
            return self._schema
        return first_batch_columns(self.config, self.topic, self._decoder, self.extents)

    def wanted(self, table: Table) -> list[pa.Schema]:
        """Returns the schemas of the rows that the base table has to take next.

        It is the schema of the topic, unless records have to be decoded. Then it is those of the next batch.
        """
        if self._decoder is None:
            return [self._schema]
        return next_batch_schemas(self.config, self.store, self.topic, self._decoder, table)

    @property
    def tables(self) -> tuple[TopicTable, ...]:
        derived = sorted(self.config.topic(self.topic).derived)
        return (
            TopicTable(base_identifier(self.config, self.topic), "base"),
            TopicTable(dead_letter_identifier(self.config, self.topic), "dead-letter"),
            *(TopicTable(derived_identifier(self.config, self.topic, name), "derived") for name in derived),
        )

    @property
    def starts(self) -> dict[int, int]:
        """The first offset of each partition that the log has."""
        return {partition: extent.start for partition, extent in self.extents.items()}

    @property
    def epochs(self) -> dict[int, str]:
        return {partition: extent.epoch for partition, extent in self.extents.items() if extent.epoch}

    def check(self, table: TopicTable) -> TableCheck:
        return check_table(self.lake, self.store, self.topic, table.identifier, table.role)

    def problems(self) -> list[TableProblem]:
        found = (self.problem(table) for table in self.tables)
        return [problem for problem in found if problem is not None]

    def problem(self, table: TopicTable) -> TableProblem | None:
        """Returns the problem of this table that a person has to decide about, or None if there is none."""
        for _ in range(_LOOKS):
            try:
                self._look(table)
                return None
            except (CatalogRefused, StorageError):
                raise
            except FrazilError as error:
                if error.retryable:
                    raise
                found = error
            if not isinstance(found, SegmentsGone):
                break
            # Perhaps a mover committed and the log was trimmed between reading the table and reading the log.
        return TableProblem(table, found, self._offered(table, found))

    def _offered(self, table: TopicTable, error: FrazilError) -> tuple[Decision, ...]:
        if isinstance(error, TableReplaced) and table.role != "base" and not self.check(table).is_claimed:
            # Only a base table can be adopted.
            return ()
        return _OFFERED.get(type(error), {}).get(table.role, ())

    def _check_layout(self, table: TopicTable) -> None:
        """Raises `ConfigError` if the table cannot be created as the settings say."""
        if table.role == "base":
            check_base_layout(self.config, self.store, self.topic)
        elif table.role == "derived":
            check_derived_layout(self.config, self.topic, table.identifier[-1])

    def _look(self, table: TopicTable) -> None:
        check = self.check(table)
        if check.status is TableStatus.NEVER_CREATED:
            self._check_layout(table)
            return
        adopting = table.role == "base" and self.config.topic(self.topic).table.adopt
        if check.table is not None and check.status is TableStatus.FOREIGN and check.is_unclaimed and adopting:
            check_adoption(check.table, self.topic, self.columns())
            return
        if check.table is None or check.status is not TableStatus.OK:
            raise check.error()
        check_not_rolled_back(check.table)
        # The log is read after the table, so it can only have more than the mover knew when it committed.
        self.extents = self._log.current(tail=False)
        check_against_log(TableState.of(check.table), self.extents)
        if table.role == "base":
            # Each schema is checked by itself: of schemas that clash with each other the table follows the first.
            for rows in self.wanted(check.table):
                plan_following(check.table, rows)
