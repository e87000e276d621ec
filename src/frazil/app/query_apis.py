"""Lists the query APIs, each with the port at which it is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.engine.interface import QueryRoute
from frazil.query.logql.api.routes import ROUTES as LOKI_ROUTES
from frazil.query.promql.api.routes import ROUTES as PROMETHEUS_ROUTES
from frazil.query.traceql.api.routes import ROUTES as TEMPO_ROUTES
from frazil.web.ports.contributions import LOKI, PROMETHEUS, TEMPO

QUERY_APIS: Mapping[str, Sequence[QueryRoute]] = {
    LOKI: LOKI_ROUTES,
    PROMETHEUS: PROMETHEUS_ROUTES,
    TEMPO: TEMPO_ROUTES,
}
