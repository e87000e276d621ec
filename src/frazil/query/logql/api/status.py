"""Answers what clients ask about the server: its version and limits, its rules, and how a query is printed."""

from __future__ import annotations

from typing import Any

import yaml

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import NotSupported, QueryError
from frazil.formats.loki.labels import SERVICE_LABELS
from frazil.formats.telemetry.line_levels import LEVEL_FIELDS
from frazil.query.logql.api.parameters import parameters_of
from frazil.query.logql.api.queries import hours_text
from frazil.query.logql.api.replies import TEXT, object_reply, success
from frazil.query.logql.api.tenants import label_rules, settings_of
from frazil.query.logql.parse.layout import laid_out
from frazil.query.logql.parse.parser import parse
from frazil.version import __version__

LOKI_VERSION = "3.7.8"
"""Clients look at the version to know what they may ask for. This is the one whose API is served."""


def build_info(request: QueryRequest, context: QueryContext) -> Reply:
    build = {"version": LOKI_VERSION, "revision": f"frazil-{__version__}", "branch": "", "buildUser": ""}
    return object_reply({**build, "buildDate": "", "goVersion": ""})


def format_query(request: QueryRequest, context: QueryContext) -> Reply:
    try:
        return success(laid_out(parse(parameters_of(request).one("query") or "")))
    except QueryError as error:
        return object_reply({"status": "invalid-query", "error": str(error)}, 400)


def config(request: QueryRequest, context: QueryContext) -> Reply:
    """Returns the settings that bound queries, as YAML."""
    own = context.config
    shown = {
        "loki": {
            "query": own.loki.query.model_dump(mode="json", exclude={"tenants"}),
            "labels": own.loki.labels.model_dump(),
        },
        "query": own.query.model_dump(mode="json", exclude={"tenants"}),
    }
    return Reply(200, {"content-type": TEXT}, [yaml.safe_dump(shown, sort_keys=False).encode()])


def drilldown_limits(request: QueryRequest, context: QueryContext) -> Reply:
    limits = _limits(request.tenants, context)
    return object_reply({"limits": limits, "pattern_ingester_enabled": True, "version": LOKI_VERSION})


def tenant_limits(request: QueryRequest, context: QueryContext) -> Reply:
    limits = _limits(request.tenants, context)
    return Reply(200, {"content-type": TEXT}, [yaml.safe_dump(limits).encode()])


def _limits(tenants: tuple[str, ...], context: QueryContext) -> dict[str, Any]:
    settings, rules = settings_of(context.config, tenants), label_rules(context.config, tenants)
    attributes = [{"action": "index_label", "attributes": list(rules.index_attributes)}]
    return {
        "discover_log_levels": rules.discover_levels,
        "discover_service_name": list(SERVICE_LABELS) if rules.discover_services else [],
        "log_level_fields": list(LEVEL_FIELDS),
        "max_entries_limit_per_query": settings.max_entries,
        "max_line_size_truncate": False,
        "max_query_bytes_read": f"{context.config.query.max_read_mb}MB",
        "max_query_length": hours_text(settings.max_range_hours) or "0s",
        "max_query_lookback": "0s",
        "max_query_range": "0s",
        "max_query_series": settings.max_series,
        "metric_aggregation_enabled": False,
        "otlp_config": {"resource_attributes": {"attributes_config": attributes}},
        "pattern_persistence_enabled": False,
        "query_timeout": f"{context.config.query.timeout_seconds:g}s",
        "retention_period": "0s",
        "volume_enabled": True,
        "volume_max_series": settings.max_volume_series,
    }


def delete(request: QueryRequest, context: QueryContext) -> Reply:
    raise NotSupported("lines cannot be deleted by a query here; `topics.logs` has the settings of their retention")


def no_rule_groups(request: QueryRequest, context: QueryContext) -> Reply:
    """There are no rules in Loki's own list."""
    return Reply(404, {"content-type": TEXT}, [b"no rule groups found\n"])


def no_rules(request: QueryRequest, context: QueryContext) -> Reply:
    return _of_prometheus({"groups": []})


def no_alerts(request: QueryRequest, context: QueryContext) -> Reply:
    return _of_prometheus({"alerts": []})


def _of_prometheus(data: Any) -> Reply:
    return object_reply({"status": "success", "data": data, "errorType": "", "error": ""})
