"""Lists the endpoints of Loki's API for reading."""

from __future__ import annotations

from frazil.engine.interface import QueryRoute

_PACKAGE = "frazil.query.logql.api"
_BOTH = ("GET", "POST")

ROUTES = [
    QueryRoute("/loki/api/v1/query_range", f"{_PACKAGE}.queries:query_range", _BOTH, "lines, or series of samples"),
    QueryRoute("/loki/api/v1/query", f"{_PACKAGE}.queries:query", _BOTH, "samples at one moment"),
    QueryRoute("/loki/api/v1/labels", f"{_PACKAGE}.labels:labels", _BOTH, "names of labels"),
    QueryRoute("/loki/api/v1/label", f"{_PACKAGE}.labels:labels", _BOTH, "names of labels"),
    QueryRoute("/loki/api/v1/label/{name}/values", f"{_PACKAGE}.labels:values", _BOTH, "values of a label"),
    QueryRoute("/loki/api/v1/series", f"{_PACKAGE}.labels:series", _BOTH, "streams"),
    QueryRoute("/loki/api/v1/index/stats", f"{_PACKAGE}.volume:stats", _BOTH, "how many streams, lines and bytes"),
    QueryRoute("/loki/api/v1/index/volume", f"{_PACKAGE}.volume:volume", _BOTH, "bytes by labels"),
    QueryRoute("/loki/api/v1/index/volume_range", f"{_PACKAGE}.volume:volume_range", _BOTH, "bytes at each step"),
    QueryRoute(
        "/loki/api/v1/detected_labels", f"{_PACKAGE}.detected_labels:detected_labels", _BOTH, "labels worth showing"
    ),
    QueryRoute(
        "/loki/api/v1/detected_fields", f"{_PACKAGE}.detected_fields:detected_fields", _BOTH, "fields of lines"
    ),
    QueryRoute(
        "/loki/api/v1/detected_field/{name}/values", f"{_PACKAGE}.detected_fields:values", _BOTH, "values of a field"
    ),
    QueryRoute("/loki/api/v1/patterns", f"{_PACKAGE}.patterns:patterns", _BOTH, "what lines have in common"),
    QueryRoute("/loki/api/v1/format_query", f"{_PACKAGE}.status:format_query", _BOTH, "a query as it is printed"),
    QueryRoute("/loki/api/v1/drilldown-limits", f"{_PACKAGE}.status:drilldown_limits", summary="limits of queries"),
    QueryRoute("/config/tenant/v1/limits", f"{_PACKAGE}.status:tenant_limits", summary="limits of queries"),
    QueryRoute("/config", f"{_PACKAGE}.status:config", summary="settings of queries"),
    QueryRoute("/loki/api/v1/status/buildinfo", f"{_PACKAGE}.status:build_info", summary="the version"),
    QueryRoute("/loki/api/v1/delete", f"{_PACKAGE}.status:delete", ("GET", "POST", "PUT", "DELETE"), "nothing yet"),
    QueryRoute("/loki/api/v1/rules", f"{_PACKAGE}.status:no_rule_groups", summary="rules: none"),
    QueryRoute("/loki/api/v1/rules/{namespace}", f"{_PACKAGE}.status:no_rule_groups", summary="rules: none"),
    QueryRoute("/prometheus/api/v1/rules", f"{_PACKAGE}.status:no_rules", summary="rules: none"),
    QueryRoute("/prometheus/api/v1/alerts", f"{_PACKAGE}.status:no_alerts", summary="alerts: none"),
]
