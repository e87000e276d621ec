"""Takes a query from its text to its result. Each topic is pinned at one cut before anything is read."""

from __future__ import annotations

import pyarrow as pa

from frazil.config.model import Config
from frazil.lake.catalog.lake import dotted
from frazil.lake.tables.tables import base_identifier
from frazil.log.topics.schemas import list_topics
from frazil.query.sql.databases import Databases
from frazil.query.sql.engine import Engine
from frazil.query.sql.parse import Path, parse
from frazil.query.sql.table_names import TableNames
from frazil.query.sql.time_limit import run_within
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.interface import ScanRequest
from frazil.scan.scanner import TopicScanner
from frazil.store import open_store


class SqlSession:
    """Answers one query at a time. A `tenant` sees only its own rows of topics with a tenant column; None sees all.

    `scanner` is one that others use too; the session has its own without it.
    """

    def __init__(self, config: Config, scanner: TopicScanner | None = None) -> None:
        self._config = config
        self._store = open_store(config.store, config.data_dir.absolute())
        self._scanner = scanner or TopicScanner(config)
        self._owns_scanner = scanner is None
        self._databases = Databases(config.sql)
        self.complete = True
        """Whether the last query saw every record that was acknowledged before, of all its topics."""

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owns_scanner:
            self._scanner.close()

    def ask(self, text: str, tenant: str | None = None) -> pa.Table:
        engine = self.engine()
        return run_within(self._config.sql.timeout_seconds, lambda: self.run(engine, text, tenant), engine.stop)

    def engine(self) -> Engine:
        """Returns what runs one query."""
        return Engine(self._config.sql, self._databases)

    def prepare(self) -> None:
        """Does in advance, in the background, what the next query needs."""
        self._databases.prepare()

    def warm(self) -> None:
        """Loads and opens what the first query would wait for."""
        self.engine().run(parse("SELECT 1"), {})
        self.prepare()

    def run(self, engine: Engine, text: str, tenant: str | None) -> pa.Table:
        """Answers a query without a limit of its time. Another thread can stop the engine."""
        statement = parse(text)
        names = TableNames(self._config, list_topics(self._store))
        if statement.lists_tables:
            self.complete = True
            return self._listed(names)
        pinned = self._pin(names.resolve(statement), tenant)
        self.complete = all(each.complete for each in pinned.values())
        return engine.run(statement, pinned)

    def _listed(self, names: TableNames) -> pa.Table:
        tables = [dotted(base_identifier(self._config, topic)) for topic in names.topics]
        return pa.table({"name": pa.array(names.topics, pa.string()), "table": pa.array(tables, pa.string())})

    def _pin(self, topics: dict[Path, str], tenant: str | None) -> dict[Path, PinnedScan]:
        tenants = None if tenant is None else (tenant,)
        pinned = {topic: self._scanner.pin(ScanRequest(topic, tenants)) for topic in sorted(set(topics.values()))}
        return {path: pinned[topic] for path, topic in topics.items()}
