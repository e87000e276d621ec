"""Prepares a query process for its first query in LogQL."""

from __future__ import annotations

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.logql.api.queries import query_range
from frazil.web.ports.contributions import LOKI

ANSWER = "frazil.query.logql.api.warming:warm"
REQUEST = QueryRequest(
    "GET", "/warm", {}, "query={app=%22warm%22}%20|=%20%22x%22&since=1s", {}, b"", ("default",), LOKI
)


def warm(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers a query that finds nothing, for which all that queries need is loaded."""
    return query_range(request, context)
