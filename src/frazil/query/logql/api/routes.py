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
]
