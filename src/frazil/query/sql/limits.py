"""Says how queries in SQL are run and what they may take. Loading it does not load DuckDB."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.engine.limits import Limit, QueryLimits, Solo

ANSWER = "frazil.query.sql.answer:answer"
WARM = "frazil.query.sql.answer:warm"

MAX_BYTES = 100_000
"""The text of a query is at most this long. DuckDB's parser recurses into each level of nesting, and a few MB of
brackets would end the process."""


def solo(config: Config) -> Solo:
    """Returns the limits of a query. Each has a process to itself, because DuckDB cannot always be stopped, and takes
    memory that it does not count."""
    limits = QueryLimits(
        Limit(config.sql.timeout_seconds, "sql.timeout_seconds"),
        Limit(config.sql.max_memory_mb, "sql.max_memory_mb"),
        # The number of rows is limited where they are made.
        max_read_mb=None,
        max_rows_out=None,
    )
    return Solo(limits, Limit(config.sql.max_concurrent, "sql.max_concurrent"))
