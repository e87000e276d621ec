"""Says what the tenants of a query may ask for, and by which rules their labels are made."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.config.sections.loki import LokiQueryConfig
from frazil.engine.interface import QueryContext, QueryRequest
from frazil.formats.loki.labels import SERVICE_LABELS
from frazil.query.logql.source.label_rules import INDEX_ATTRIBUTES, LabelRules
from frazil.query.logql.source.log_rows import LogRows


def settings_of(config: Config, tenants: tuple[str, ...]) -> LokiQueryConfig:
    """Returns the settings of a tenant. Queries over several tenants have the general ones."""
    settings = config.loki.query
    return settings.of_tenant(tenants[0]) if len(tenants) == 1 else settings


def label_rules(settings: LokiQueryConfig) -> LabelRules:
    return LabelRules(
        index_attributes=INDEX_ATTRIBUTES if settings.stream_attributes is None else settings.stream_attributes,
        service_labels=SERVICE_LABELS if settings.service_labels is None else settings.service_labels,
        discover_levels=settings.detect_levels,
    )


def source_of(request: QueryRequest, context: QueryContext) -> LogRows:
    """Returns the lines that the request may see."""
    settings = settings_of(context.config, request.tenants)
    return LogRows(context.scanner, request.tenants, label_rules(settings))
