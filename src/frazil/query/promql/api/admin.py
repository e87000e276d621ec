"""Refuses the administration of data: it is not possible over HTTP."""

from __future__ import annotations

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.promql.api.envelope import failed

_DISABLED = "admin APIs disabled"


def refuse(request: QueryRequest, context: QueryContext) -> Reply:
    return failed(500, "unavailable", _DISABLED)
