"""What a person decides about a topic that stopped. The table remembers it, and movers see it when they look."""

from __future__ import annotations

from typing import Literal

from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import FrazilError, TopicNotFound
from frazil.lake.catalog import Lake
from frazil.lake.evolution import accept_schema, set_on_mismatch
from frazil.lake.offsets import TableState, check_history, named
from frazil.lake.opening import Wanted, accept_table, open_base_table, recreate_table, wanted_base
from frazil.lake.rollback import accept_table_state, replay_table
from frazil.lake.rows.agreement import check_against_log
from frazil.lake.rows.extents import Extents
from frazil.lake.standing import Standing, check_table
from frazil.lake.tables import base_identifier
from frazil.log.store import ObjectStore
from frazil.log.topics import TopicSchemas

Decision = Literal["accept-schema", "dead-letter", "replay", "accept", "recreate"]


class Topic:
    """A topic and its base table, for one decision."""

    def __init__(self, config: Config, lake: Lake, store: ObjectStore, topic: str) -> None:
        self._config = config
        self._lake = lake
        self._store = store
        self._topic = topic
        newest = TopicSchemas(store, topic).latest()
        if newest is None:
            raise TopicNotFound(f"Topic {topic!r} has no schema in {store.url}.")
        self._schema = newest.schema
        self._extents = Extents(store, topic, config.data_dir).look(tail=False)

    def problem(self) -> FrazilError | None:
        """Why the topic is stopped, if it is."""
        try:
            table = open_base_table(
                self._lake, self._store, self._config, self._topic, self._schema, self._starts(), self._epochs()
            )
            check_history(table)
            check_against_log(TableState.of(table), self._extents)
        except FrazilError as error:
            return error
        return None

    def decide(self, decision: Decision) -> str:
        """Do it; what was done, for people."""
        match decision:
            case "accept-schema":
                return f"{named(accept_schema(self._lake, self._table(), self._schema))} takes the topic's columns."
            case "dead-letter":
                table = set_on_mismatch(self._lake, self._table(), "dead-letter")
                return f"Rows that do not fit {named(table)} go to its dead-letter table."
            case "replay":
                table = replay_table(self._lake, self._table(), self._starts())
                return f"{named(table)} is moved again from {_offsets(table)}."
            case "accept":
                return self._accept()
            case "recreate":
                table = recreate_table(self._lake, self._store, self._wanted())
                return f"{named(table)} was made anew and begins at {_offsets(table)}."

    def _accept(self) -> str:
        check = check_table(self._lake, self._store, self._topic, base_identifier(self._config, self._topic))
        if check.standing is Standing.FINE:
            table = accept_table_state(self._lake, self._table())
        else:
            table = accept_table(self._lake, self._store, self._wanted(), self._schema)
        return f"{named(table)} is taken as it is, and goes on at {_offsets(table)}."

    def _table(self) -> Table:
        return self._lake.load(base_identifier(self._config, self._topic))

    def _wanted(self) -> Wanted:
        return wanted_base(self._config, self._topic, self._schema, self._starts(), self._epochs())

    def _starts(self) -> dict[int, int]:
        return {partition: extent.start for partition, extent in self._extents.items()}

    def _epochs(self) -> dict[int, str]:
        return {partition: extent.epoch for partition, extent in self._extents.items() if extent.epoch}


def _offsets(table: Table) -> str:
    offsets = TableState.of(table).offsets
    return ", ".join(f"offset {offset} of partition {partition}" for partition, offset in sorted(offsets.items()))
