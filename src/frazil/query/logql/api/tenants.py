"""Says what the tenants of a query may ask for, and by which rules their labels are made."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.config.sections.loki import LokiQueryConfig
from frazil.engine.interface import QueryContext, QueryRequest
from frazil.query.logql.source.label_rules import LabelRules
from frazil.query.logql.source.log_rows import LogRows


def settings_of(config: Config, tenants: tuple[str, ...]) -> LokiQueryConfig:
    """Returns the settings of a tenant. Queries over several tenants have the general ones."""
    settings = config.loki.query
    return settings.of_tenant(tenants[0]) if len(tenants) == 1 else settings


def label_rules(config: Config, tenants: tuple[str, ...]) -> LabelRules:
    """Returns the rules of a tenant. For several there are the general ones."""
    return LabelRules.of(config.loki, "|".join(tenants))


def source_of(request: QueryRequest, context: QueryContext) -> LogRows:
    """Returns the lines that the request may see."""
    rules = label_rules(context.config, request.tenants)
    return LogRows(context.scanner, request.tenants, rules, cache=context.cache)
