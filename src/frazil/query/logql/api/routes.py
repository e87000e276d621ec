"""Lists the endpoints of Loki's API for reading."""

from __future__ import annotations

from frazil.engine.interface import QueryRoute

_PACKAGE = "frazil.query.logql.api"
_BOTH = ("GET", "POST")

ROUTES = [
    QueryRoute("/loki/api/v1/query_range", f"{_PACKAGE}.queries:query_range", _BOTH, "lines, or series of samples"),
    QueryRoute("/loki/api/v1/query", f"{_PACKAGE}.queries:query", _BOTH, "samples at one moment"),
]
