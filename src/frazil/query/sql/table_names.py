"""Resolves the table names of a query to topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from frazil.config.model import Config
from frazil.errors import ConfigError, QueryError
from frazil.lake.catalog.lake import dotted
from frazil.lake.tables.tables import base_identifier
from frazil.log.topics.naming import hint
from frazil.query.sql.parse import Path, Statement

_OF_DUCKDB = frozenset({"information_schema", "main", "memory", "pg_catalog", "system", "temp"})
_DEEPEST = 3


class TableNames:
    """Maps SQL names to topics: a topic's own name, or the name of its table with the namespace.

    Case does not matter, as in SQL, unless two topics differ in case only.
    """

    def __init__(self, config: Config, topics: Sequence[str]) -> None:
        self.topics = topics
        self._exact: dict[str, str] = {}
        self._folded: defaultdict[str, set[str]] = defaultdict(set)
        for topic in topics:
            for name in (topic, *_table_name(config, topic)):
                self._exact.setdefault(name, topic)
                self._folded[name.lower()].add(topic)
        # The name of a topic takes precedence over the name of another topic's table.
        self._exact.update((topic, topic) for topic in topics)

    def find(self, path: Path) -> str | None:
        name = ".".join(path)
        if name in self._exact:
            return self._exact[name]
        alike = sorted(self._folded.get(name.lower(), ()))
        if len(alike) > 1:
            raise QueryError(f"{name!r} may be {' or '.join(map(repr, alike))}: write it as it is, in double quotes.")
        return alike[0] if alike else None

    def resolve(self, statement: Statement) -> dict[Path, str]:
        """Returns the topic of each table. Raises `QueryError` with the name of a table that has no topic."""
        found: dict[Path, str] = {}
        for path in statement.tables:
            topic = self.find(path)
            if topic is None:
                raise QueryError(f"There is no table {'.'.join(path)!r}.{hint('.'.join(path), self.topics)}")
            found[path] = topic
        for path in statement.maybe:
            # A name that the query defines may still mean the topic elsewhere in the query.
            if topic := self.find(path):
                found[path] = topic
        _check_names(found)
        return found


def _table_name(config: Config, topic: str) -> Iterable[str]:
    try:
        yield dotted(base_identifier(config, topic))
    except ConfigError:
        return


def _check_names(found: dict[Path, str]) -> None:
    seen: dict[str, str] = {}
    for path, topic in found.items():
        name = ".".join(path)
        other = seen.setdefault(name.lower(), topic)
        if other != topic:
            raise QueryError(f"{topic!r} and {other!r} differ in case only: SQL cannot have both in one query.")
        if len(path) > _DEEPEST or (len(path) > 1 and path[0].lower() in _OF_DUCKDB):
            raise QueryError(f'{name!r} cannot be written so: use the topic\'s name, "{topic}".')
