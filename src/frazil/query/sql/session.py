"""Takes a query from its text to its result. Each topic is pinned at one cut before anything is read."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.errors import FrazilError
from frazil.lake.catalog.lake import Lake, dotted
from frazil.lake.tables.tables import base_identifier
from frazil.log.topics.schemas import list_topics
from frazil.query.sql.databases import Databases
from frazil.query.sql.engine import Engine
from frazil.query.sql.parse import Path, parse
from frazil.query.sql.table_names import TableNames
from frazil.query.sql.time_limit import run_within
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.interface import ScanRequest
from frazil.scan.scanner import MEMORY_BYTES, TopicScanner
from frazil.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from frazil.log.tail import TailView
    from frazil.scan.log_extents import Tails

MEMORY_SHARE = 2
"""What is remembered between queries takes at most one part in so many of what a query may take."""


logger = logging.getLogger(__name__)


class SqlSession:
    """Answers one query at a time. A `tenant` sees only its own rows of topics with a tenant column; None sees all.

    `tails_of` is called once for each query, with its topics, for tails that exist only in the memory of writers.
    """

    def __init__(self, config: Config, tails_of: Callable[[Iterable[str]], Tails | None] = lambda _: None) -> None:
        self._config = config
        self._lake = Lake(config)
        self._store = open_store(config.store, config.data_dir.absolute())
        self._tails_of = tails_of
        self._tails: Tails = _no_tails
        memory_bytes = config.sql.max_memory_mb * MIB // MEMORY_SHARE
        self._scanner = TopicScanner(
            config, self._lake, lambda topic: self._tails(topic), memory_bytes=min(MEMORY_BYTES, memory_bytes)
        )
        self._databases = Databases(config.sql)
        self.complete = True
        """Whether the last query saw every record that was acknowledged before, of all its topics."""

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._scanner.close()
        self._lake.close()

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
        """Loads and opens what the first query would wait for. The catalog may answer later, or not at all."""
        threading.Thread(target=self._open_catalog, name="frazil-sql-catalog", daemon=True).start()
        self.engine().run(parse("SELECT 1"), {})
        self.prepare()

    def _open_catalog(self) -> None:
        try:
            self._lake.check()
        except FrazilError as error:
            # A query fails with the reason, if it is still there then.
            logger.debug("the catalog could not be opened in advance", extra={"reason": str(error)})

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
        self._tails = (self._tails_of(topics.values()) if topics else None) or _no_tails
        tenants = None if tenant is None else (tenant,)
        pinned = {topic: self._scanner.pin(ScanRequest(topic, tenants)) for topic in sorted(set(topics.values()))}
        return {path: pinned[topic] for path, topic in topics.items()}


def _no_tails(topic: str) -> Mapping[int, TailView]:
    return {}
