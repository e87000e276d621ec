"""What a person decides about a topic that stopped.

Tables and log remember it, and movers see it when they look: there is no other channel between them.
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
    """A topic and all its tables. Each call looks at them, and at the log, as they are then."""

    def __init__(self, config: Config, lake: Lake, store: ObjectStore, topic: str) -> None:
        self._config = config
        self._lake = lake
        self._store = store
        self._topic = topic

    def problems(self) -> list[TableProblem]:
        """Why the topic is stopped, if it is, table by table. Nothing is changed."""
        return self._examine().problems()

    def decide(self, decision: Decision, table: str | None = None) -> list[str]:
        """Do it for the named table, or for all that need it; what was done, for people."""
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
        # What the log no longer has comes from the base table, for all tables but that one.
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
        """A base table takes its dead letters with it: rows that did not fit it may fit the next one.

        They go first. With a new base table beside old dead letters, rows could be in neither.
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
        # What is not ours stays; the pipeline stops at it should it need the name.
        return [] if check.table is not None and not check.is_claimed else self._retire(letters)

    def _retire(self, table: TopicTable) -> list[str]:
        aside = put_table_aside(self._lake, self._seen.store, self._seen.check(table))
        return [f"{table.name} with its rows is called {dotted(aside)} now."] if aside else []

    def _load(self, table: TopicTable) -> Table:
        return self._lake.load(table.identifier)


def _is_open(decision: Decision, table: TopicTable, problem: TableProblem | None) -> bool:
    """Whether the decision can be made about this table.

    What is to be done with rows that do not fit can be changed at any time, and a dead-letter or derived table can be
    made anew at any time: what stops a mover at it is not always to be seen.
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
