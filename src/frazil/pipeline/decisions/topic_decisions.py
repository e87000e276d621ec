"""Carries out what a person decides about a topic that stopped.

The decision is stored in the tables and beside the log, where movers read it. There is no other channel to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import ConfigError, IcebergError, TableRolledBack
from frazil.lake.catalog.lake import Lake, dotted
from frazil.lake.commit.offsets import TableState
from frazil.lake.evolution import set_on_mismatch
from frazil.lake.schema.widening import compatible_schemas
from frazil.lake.schema_acceptance import accept_schema
from frazil.lake.tables.opening import accept_table
from frazil.lake.tables.put_aside import put_table_aside
from frazil.lake.tables.table_check import TableStatus
from frazil.pipeline.decisions.accept_log import accept_log
from frazil.pipeline.decisions.problems import Decision, TableProblem, TopicExamination, TopicTable
from frazil.pipeline.decisions.rollback import accept_table_state, replay_table
from frazil.store import ObjectStore

__all__ = ["Decision", "TableProblem", "TopicDecisions", "TopicTable"]

_ABOUT_ROWS: tuple[Decision, ...] = ("accept-schema", "dead-letter")


class TopicDecisions:
    """The problems of a topic and the decisions about them. Each call reads the tables and the log again."""

    def __init__(self, config: Config, lake: Lake, store: ObjectStore, topic: str) -> None:
        self._config = config
        self._lake = lake
        self._store = store
        self._topic = topic

    def problems(self) -> list[TableProblem]:
        """Returns why the topic is stopped, table by table, without changing anything."""
        return self._examine().problems()

    def decide(self, decision: Decision, table: str | None = None) -> list[str]:
        """Carries out a decision for the named table, or for all that need it.

        Returns sentences about what was done.
        """
        return _Decider(self._examine()).decide(decision, table)

    def _examine(self) -> TopicExamination:
        return TopicExamination(self._config, self._lake, self._store, self._topic)


class _Decider:
    def __init__(self, seen: TopicExamination) -> None:
        self._seen = seen
        self._lake = seen.lake
        self._topic = seen.topic

    def decide(self, decision: Decision, table: str | None) -> list[str]:
        return [text for chosen in self._chosen(decision, table) for text in self._decide(decision, chosen)]

    def _chosen(self, decision: Decision, name: str | None) -> list[TopicTable]:
        if name is not None:
            table = self._table(name)
            problem = self._seen.problem(table)
            if not _is_open(decision, table, problem):
                raise _useless(decision, table.name, [problem] if problem else [])
            return [table]
        if decision in _ABOUT_ROWS:
            return [table for table in self._seen.tables if table.role == "base"]
        problems = self._seen.problems()
        chosen = [problem.table for problem in problems if decision in problem.decisions]
        if not chosen:
            raise _useless(decision, self._topic, problems)
        return chosen

    def _table(self, name: str) -> TopicTable:
        tables = self._seen.tables
        for table in tables:
            if name in {table.name, table.identifier[-1]}:
                return table
        there = ", ".join(table.name for table in tables)
        raise ConfigError(f"--table: {name!r} is no table of topic {self._topic!r}. Its tables: {there}.")

    def _decide(self, decision: Decision, table: TopicTable) -> list[str]:
        match decision:
            case "accept-schema":
                current = self._load(table)
                wanted = self._seen.wanted(current)
                done = accept_schema(self._lake, current, *compatible_schemas(wanted), *wanted)
                return [f"{table.name} takes the topic's columns; {_goes_on(done)}."]
            case "dead-letter":
                set_on_mismatch(self._lake, self._load(table), "dead-letter")
                return [f"Rows that do not fit {table.name} go to its dead-letter table."]
            case "replay":
                return [self._replay(table)]
            case "accept":
                return self._accept(table)
            case "recreate":
                return self._recreate(table)
            case never:
                assert_never(never)

    def _replay(self, table: TopicTable) -> str:
        # Other tables than the base table get from the base table what the log no longer has.
        starts = self._seen.starts if table.role == "base" else {}
        done = replay_table(self._lake, self._load(table), starts)
        return f"{table.name} is filled again; {_goes_on(done)}."

    def _accept(self, table: TopicTable) -> list[str]:
        check = self._seen.check(table)
        if check.table is None or check.status is not TableStatus.OK:
            seen = self._seen
            done = accept_table(self._lake, seen.store, check, seen.columns(), seen.starts, seen.epochs)
            return [f"{table.name} is taken as it is; {_goes_on(done)}."]
        problem = self._seen.problem(table)
        if problem is not None and isinstance(problem.error, TableRolledBack):
            done = accept_table_state(self._lake, check.table)
            return [f"{table.name} is taken as it is; {_goes_on(done)}."]
        done, missing = accept_log(self._lake, check.table, self._seen.extents)
        return [f"{table.name} keeps its rows; {_goes_on(done)}.", *missing]

    def _recreate(self, table: TopicTable) -> list[str]:
        """Puts a table aside, so that the pipeline creates it again.

        With a base table its dead letters are put aside, too, because rows that did not fit it may fit the next one.
        They are put aside first: with a new base table beside old dead letters, rows could be in neither.
        """
        if table.role == "base":
            begins = f": from {_places(self._seen.starts)} on" if self._seen.starts else ""
            return [
                *self._retire_letters(),
                *self._retire(table),
                f"The pipeline makes {table.name} anew, with what the log has{begins}.",
                *self._gone(),
            ]
        when = "with the next row that does not fit" if table.role == "dead-letter" else "as its settings say"
        return [*self._retire(table), f"The pipeline makes {table.name} anew, {when}."]

    def _gone(self) -> list[str]:
        gone = sum(self._seen.starts.values())
        records = "record before that is" if gone == 1 else "records before that are"
        return [f"The {gone:,} {records} not in the log any more: the new table is without."] if gone else []

    def _retire_letters(self) -> list[str]:
        (letters,) = (each for each in self._seen.tables if each.role == "dead-letter")
        check = self._seen.check(letters)
        # A table that is not ours stays. The pipeline stops if it needs the name.
        return [] if check.table is not None and not check.is_claimed else self._retire(letters)

    def _retire(self, table: TopicTable) -> list[str]:
        aside = put_table_aside(self._lake, self._seen.store, self._seen.check(table))
        return [f"{table.name} with its rows is called {dotted(aside)} now."] if aside else []

    def _load(self, table: TopicTable) -> Table:
        return self._lake.load(table.identifier)


def _is_open(decision: Decision, table: TopicTable, problem: TableProblem | None) -> bool:
    """Returns whether the decision can be made about this table.

    The handling of rows that do not fit can be changed at any time. A dead-letter or derived table can be recreated
    at any time, because what stops its mover cannot always be seen here.
    """
    if problem is not None and decision in problem.decisions:
        return True
    if decision == "recreate":
        return table.role != "base"
    return decision in _ABOUT_ROWS and table.role == "base"


def _useless(decision: Decision, about: str, problems: list[TableProblem]) -> IcebergError:
    why = " ".join(str(problem.error) for problem in problems)
    return IcebergError(f"--{decision} does not help {about}: {why or 'nothing stops it that can be seen.'}")


def _goes_on(table: Table) -> str:
    places = _places(TableState.of(table).offsets)
    return f"it goes on at {places}" if places else "it goes on"


def _places(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"offset {offset} of partition {partition}" for partition, offset in sorted(offsets.items()))
