"""Settings of queries."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.section import Section


class QueryConfig(Section):
    """What queries may do."""

    multi_tenant: bool = Field(
        False,
        description="Whether a query may read the rows of several tenants, named as `a|b` in `X-Scope-OrgID`.",
    )
