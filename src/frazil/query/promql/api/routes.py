"""Lists the endpoints of Prometheus's API that answer queries."""

from __future__ import annotations

from frazil.engine.interface import QueryRoute

_GET = ("GET",)
_BOTH = ("GET", "POST")
_CHANGES = ("POST", "PUT")

_ENDPOINTS: list[tuple[str, str, tuple[str, ...], str]] = [
    ("query", "queries:instant", _BOTH, "a PromQL query at one moment"),
    ("query_range", "queries:ranged", _BOTH, "a PromQL query over a range of time"),
    ("query_exemplars", "exemplars:exemplars", _BOTH, "exemplars of the series of a query"),
    ("format_query", "expressions:format_query", _BOTH, "a query, printed well"),
    ("parse_query", "expressions:parse_query", _BOTH, "a query as a tree"),
    ("series", "labels:series", _BOTH, "series by their labels"),
    ("labels", "labels:names", _BOTH, "names of labels"),
    ("label/{name}/values", "labels:values", _GET, "values of a label"),
    ("metadata", "metadata:metadata", _GET, "type, help and unit of metrics"),
    ("targets", "metadata:targets", _GET, "targets of scraping: none"),
    ("targets/metadata", "metadata:targets_metadata", _GET, "metrics of targets: none"),
    ("scrape_pools", "metadata:scrape_pools", _GET, "pools of targets: none"),
    ("alertmanagers", "metadata:alertmanagers", _GET, "where alerts go: nowhere"),
    ("rules", "metadata:rules", _GET, "rules: none"),
    ("alerts", "metadata:alerts", _GET, "alerts: none"),
    ("notifications", "status:no_list", _GET, "messages to people: none"),
    ("status/buildinfo", "status:buildinfo", _GET, "version"),
    ("status/runtimeinfo", "status:runtimeinfo", _GET, "the process"),
    ("status/flags", "status:flags", _GET, "settings as flags of Prometheus"),
    ("status/config", "status:config", _GET, "settings as a configuration of Prometheus"),
    ("status/tsdb", "status:tsdb", _GET, "names and labels with most series"),
    ("status/walreplay", "status:walreplay", _GET, "whether the start is done"),
    ("read", "remote_read:read", ("POST",), "remote read"),
    ("admin/tsdb/delete_series", "admin:refuse", _CHANGES, "is refused"),
    ("admin/tsdb/clean_tombstones", "admin:refuse", _CHANGES, "is refused"),
    ("admin/tsdb/snapshot", "admin:refuse", _CHANGES, "is refused"),
]

ROUTES: list[QueryRoute] = [
    *(
        QueryRoute(f"/api/v1/{path}", f"frazil.query.promql.api.{answer}", methods, summary)
        for path, answer, methods, summary in _ENDPOINTS
    ),
    QueryRoute("/federate", "frazil.query.promql.api.federation:federate", _GET, "newest samples, as text"),
]
