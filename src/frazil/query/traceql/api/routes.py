"""Lists the endpoints of Tempo's API, and of Jaeger's."""

from __future__ import annotations

from frazil.engine.interface import QueryRoute

_API = "frazil.query.traceql.api."


def _route(path: str, answer: str, summary: str) -> QueryRoute:
    return QueryRoute(path, _API + answer, ("GET", "POST"), summary)


ROUTES: list[QueryRoute] = [
    _route("/api/echo", "status:echo", "Says that the server is there."),
    _route("/api/status/buildinfo", "status:build_info", "Returns the version."),
    _route("/api/traces/{id}", "traces:trace_v1", "Returns a trace."),
    _route("/api/v2/traces/{id}", "traces:trace_v2", "Returns a trace, or an empty one."),
    _route("/api/search", "search:search_traces", "Searches traces."),
    _route("/api/search/tags", "tags:tag_names", "Returns names of attributes."),
    _route("/api/v2/search/tags", "tags:tag_names_by_scope", "Returns names of attributes by scope."),
    _route("/api/search/tag/{tag:path}/values", "tag_values:tag_values", "Returns values of an attribute."),
    _route("/api/v2/search/tag/{tag:path}/values", "tag_values:typed_tag_values", "Returns values with their types."),
    _route("/api/metrics/query_range", "metrics:query_range", "Returns series of samples."),
    _route("/api/metrics/query", "metrics:query_instant", "Returns one number for each series."),
    _route("/api/metrics/summary", "summary:metrics_summary", "Returns counts, errors and latencies of groups."),
    _route("/jaeger/api/services", "jaeger:services", "Returns the services that sent spans."),
    _route("/jaeger/api/services/{service:path}/operations", "jaeger:operations_of_service", "Returns span names."),
    _route("/jaeger/api/operations", "jaeger:operations", "Returns names and kinds of spans."),
    _route("/jaeger/api/traces", "jaeger:traces", "Searches traces."),
    _route("/jaeger/api/traces/{id}", "jaeger:trace", "Returns a trace."),
    _route("/jaeger/api/dependencies", "jaeger:dependencies", "Returns which services call which."),
]
