"""Says what a field of a query is, and which columns it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from frazil.query.traceql.parse.tree import (
    Aggregate,
    Attribute,
    Binary,
    Expression,
    Field,
    Filter,
    GroupBy,
    Intrinsic,
    Pipeline,
    ScalarFilter,
    Select,
    SpansetOperation,
    Unary,
)

ELEMENT_KINDS = ("event", "link")

ATTRIBUTE_COLUMNS = {
    "span": "attributes",
    "resource": "resource_attributes",
    "instrumentation": "scope_attributes",
}
"""The column of maps of each scope."""

_COLUMNS = {
    "duration": ("timestamp", "end_timestamp", "duration_nanos"),
    "name": ("name",),
    "status": ("status_code",),
    "statusMessage": ("status_message",),
    "kind": ("kind",),
    "trace:id": ("trace_id",),
    "span:id": ("span_id",),
    "span:parentID": ("parent_span_id",),
    "event:name": ("events",),
    "event:timeSinceStart": ("events", "timestamp"),
    "link:traceID": ("links",),
    "link:spanID": ("links",),
    "instrumentation:name": ("scope_name",),
    "instrumentation:version": ("scope_version",),
}
OF_TRACE = frozenset(
    {
        "traceDuration",
        "rootName",
        "rootServiceName",
        "span:childCount",
        "nestedSetLeft",
        "nestedSetRight",
        "nestedSetParent",
    }
)
"""These intrinsics need all spans of a trace."""

TIME_COLUMNS = ("timestamp", "end_timestamp", "duration_nanos")
TRACE_COLUMNS = (
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    *TIME_COLUMNS,
    "status_code",
    "service_name",
)
"""The columns that a result shows of each span, and by which spans become traces."""


def is_service_name(field: Field) -> bool:
    return isinstance(field, Attribute) and field.scope == "resource" and field.name == "service.name"


def element_kind(field: Field) -> str | None:
    """Returns `event` or `link` if the field is one of a span's events or links."""
    kind = field.scope if isinstance(field, Attribute) else field.name.partition(":")[0]
    return kind if kind in ELEMENT_KINDS else None


def columns_of(fields: Iterable[Field]) -> list[str]:
    """Returns the columns that these fields are made of."""
    found: dict[str, None] = {}
    for field in fields:
        found.update(dict.fromkeys(_columns(field)))
    return list(found)


def _columns(field: Field) -> Iterator[str]:
    if isinstance(field, Intrinsic):
        yield from TRACE_COLUMNS if field.name in OF_TRACE else _COLUMNS[field.name]
    elif field.scope in ELEMENT_KINDS:
        yield field.scope + "s"
    elif is_service_name(field):
        yield "service_name"
    else:
        for scope in (field.scope,) if field.scope else ("span", "resource"):
            yield ATTRIBUTE_COLUMNS[scope]
            yield ATTRIBUTE_COLUMNS[scope] + "_types"


def fields_of(expression: Expression | None) -> Iterator[Field]:
    """Yields the fields of an expression in their order."""
    match expression:
        case Attribute() | Intrinsic():
            yield expression
        case Unary():
            yield from fields_of(expression.operand)
        case Binary():
            yield from fields_of(expression.left)
            yield from fields_of(expression.right)


def fields_of_pipeline(pipeline: Pipeline | Filter | SpansetOperation) -> Iterator[Field]:
    """Yields all fields of a pipeline, each as often as it stands there."""
    match pipeline:
        case Filter():
            yield from fields_of(pipeline.expression)
        case SpansetOperation():
            yield from fields_of_pipeline(pipeline.left)
            yield from fields_of_pipeline(pipeline.right)
        case Pipeline():
            for stage in pipeline.stages:
                match stage:
                    case Filter() | SpansetOperation():
                        yield from fields_of_pipeline(stage)
                    case GroupBy():
                        yield from fields_of(stage.expression)
                    case Select():
                        yield from stage.fields
                    case ScalarFilter():
                        if isinstance(stage.left, Aggregate):
                            yield from fields_of(stage.left.expression)


def filters_of(pipeline: Pipeline | Filter | SpansetOperation) -> Iterator[Filter]:
    """Yields all filters of a pipeline, wherever they stand."""
    match pipeline:
        case Filter():
            yield pipeline
        case SpansetOperation():
            yield from filters_of(pipeline.left)
            yield from filters_of(pipeline.right)
        case Pipeline():
            for stage in pipeline.stages:
                if isinstance(stage, Filter | SpansetOperation):
                    yield from filters_of(stage)
