"""Finds out from the settings how queries are evaluated."""

from __future__ import annotations

from frazil.engine.interface import QueryContext, QueryRequest
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.parse import ParserOptions
from frazil.query.promql.storage.source import StoredSamples
from frazil.query.promql.storage.unit_index import LabelRules


def options_of(context: QueryContext) -> EngineOptions:
    own = context.config.prometheus.queries
    return EngineOptions(
        lookback_ms=round(own.lookback_seconds * 1000),
        subquery_step_ms=round(own.subquery_step_seconds * 1000),
        max_samples=own.max_samples,
        delayed_names=own.delayed_name_removal,
        start_timestamps=own.start_timestamps,
        parser=ParserOptions(experimental_functions=own.experimental_functions),
    )


def samples_of(request: QueryRequest, context: QueryContext) -> StoredSamples:
    promoted = context.config.prometheus.queries.promote_resource_attributes
    return StoredSamples(context, request.tenants, promoted)


def label_rules(request: QueryRequest, context: QueryContext) -> LabelRules:
    return samples_of(request, context).rules
