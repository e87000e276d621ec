"""Settings of queries: how many processes answer them, and what one query and one tenant may take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from frazil.config.sections.section import Positive, Seconds, Section, free_names

AtLeastNone = Annotated[int, Field(ge=0)]


class TenantQueryConfig(Section):
    """What the queries of one tenant may take. Unset keys fall back to `query`."""

    timeout_seconds: Seconds | None = Field(None, description="As `query.timeout_seconds`, for this tenant.")
    max_memory_mb: Positive | None = Field(None, description="As `query.max_memory_mb`, for this tenant.")
    max_read_mb: Positive | None = Field(None, description="As `query.max_read_mb`, for this tenant.")
    max_rows_out: Positive | None = Field(None, description="As `query.max_rows_out`, for this tenant.")
    max_concurrent: Positive | None = Field(None, description="As `query.max_concurrent`, for this tenant.")
    max_queue: Positive | None = Field(None, description="As `query.max_queue`, for this tenant.")


class QueryConfig(Section):
    """Processes that answer queries, and the limits of a query. SQL has limits of its own (`sql`)."""

    multi_tenant: bool = Field(
        False,
        description="Whether a query may read the rows of several tenants, named as `a|b` in `X-Scope-OrgID`.",
    )
    processes: Positive = Field(4, description="Most processes that answer queries, about 120 MiB each.")
    warm_processes: AtLeastNone = Field(
        1, description="So many of them are started in advance; the others when queries wait."
    )
    threads: Positive = Field(
        2, description="Queries that one process answers at a time. A query in SQL has a process to itself."
    )
    idle_seconds: Seconds = Field(
        120.0, description="A process that no query needed for so long ends, and its caches with it."
    )
    memory_mb: Positive = Field(
        1024,
        description="Memory of one process for its caches and running queries together, in MiB. Half of it is for "
        "what scans remember, half for what queries hold and keep; what they keep makes room for what they hold.",
    )
    slow_seconds: Seconds = Field(10.0, description="A query that takes longer is logged, with what it read.")
    timeout_seconds: Seconds = Field(
        60.0,
        description="Longest time of a query, and longest time that it waits for its turn; less than "
        "`log.trim_grace_seconds`.",
    )
    max_memory_mb: Positive = Field(512, description="Most memory that a query may hold, in MiB.")
    max_read_mb: Positive = Field(16_384, description="Most bytes that a query may read, in MiB.")
    max_rows_out: Positive = Field(5_000_000, description="Most rows, points or samples of an answer.")
    max_concurrent: Positive = Field(8, description="Queries of one tenant at a time; others wait.")
    max_queue: Positive = Field(100, description="Queries of one tenant that may wait; more are refused at once.")
    tenants: dict[str, TenantQueryConfig] = Field(
        default_factory=dict,
        json_schema_extra=free_names("tenant"),
        description="Other limits for some tenants, by name.",
    )
