"""Lists the endpoints of Prometheus's API that answer queries."""

from __future__ import annotations

from frazil.engine.interface import QueryRoute

_API = "frazil.query.promql.api"
_BOTH = ("GET", "POST")

ROUTES: list[QueryRoute] = [
    QueryRoute("/api/v1/query", f"{_API}.queries:instant", _BOTH, "a PromQL query at one moment"),
    QueryRoute("/api/v1/query_range", f"{_API}.queries:ranged", _BOTH, "a PromQL query over a range of time"),
]
