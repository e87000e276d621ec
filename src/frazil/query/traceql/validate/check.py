"""Checks the types and limits of a query. The text of an error is Tempo's, so that clients know it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.errors import TraceQLInvalid, TraceQLUnsupported
from frazil.query.traceql.parse.names import NUMERIC, Type
from frazil.query.traceql.parse.tree import (
    Aggregate,
    Attribute,
    Binary,
    Coalesce,
    Expression,
    Filter,
    GroupBy,
    Intrinsic,
    Pipeline,
    Query,
    Scalar,
    ScalarFilter,
    ScalarOperation,
    ScalarPipeline,
    Select,
    Spanset,
    SpansetOperation,
    Stage,
    Static,
    Unary,
)
from frazil.query.traceql.parse.type_rules import REGEX, operator_fits, type_of, types_match, unary_fits
from frazil.query.traceql.validate.metrics import check_metrics


def validate(query: Query) -> None:
    """Raises `TraceQLInvalid` or `TraceQLUnsupported` for a query that can be read and not be answered."""
    match query.body:
        case Pipeline():
            _check_pipeline(query.body)
        case ScalarFilter():
            _check_scalar_filter(query.body)
        case _:
            check_metrics(query.body, _check_pipeline, check_field)


def check_field(node: Expression) -> None:
    """Checks an expression over the fields of a span."""
    match node:
        case Attribute():
            if node.parent:
                raise TraceQLUnsupported("parent")
        case Intrinsic():
            if node.name == "parent":
                raise TraceQLUnsupported("intrinsic (parent)")
        case Unary():
            check_field(node.operand)
            if not unary_fits(node.operator, type_of(node.operand)):
                raise TraceQLInvalid(f"illegal operation for the given type: {node}")
        case Binary():
            check_field(node.left)
            check_field(node.right)
            _check_binary(node)


def _check_binary(node: Binary) -> None:
    left, right = type_of(node.left), type_of(node.right)
    if node.operator in REGEX:
        _check_regex(node)
    if not types_match(left, right):
        raise TraceQLInvalid(f"binary operations must operate on the same type: {node}")
    if not operator_fits(node.operator, left, right):
        raise TraceQLInvalid(f"illegal operation for the given types: {node}")
    if node.operator == "=" and Type.NIL in (left, right):
        other = node.left if right is Type.NIL else node.right
        if isinstance(other, Intrinsic):
            raise TraceQLInvalid(f"{other}=nil is not valid because intrinsics cannot be nil")
        if isinstance(other, Attribute) and str(other) == "resource.service.name":
            raise TraceQLInvalid(f"{other}=nil is not valid because {other} cannot be nil")


def _check_regex(node: Binary) -> None:
    if not isinstance(node.right, Static):
        raise TraceQLInvalid(f"invalid type for =~ or !~: {node.right}")
    if node.right.type is not Type.STRING:
        return
    try:
        pc.match_substring_regex(pa.array([""]), str(node.right.value))
    except pa.ArrowInvalid:
        raise TraceQLInvalid(f"invalid regex: {node.right}") from None


def _check_pipeline(pipeline: Pipeline) -> None:
    for stage in pipeline.stages:
        _check_stage(stage)


def _check_stage(stage: Stage) -> None:
    match stage:
        case Filter() | SpansetOperation():
            _check_spanset(stage)
        case ScalarFilter():
            _check_scalar_filter(stage)
        case GroupBy():
            check_field(stage.expression)
            if not _reads_the_span(stage.expression):
                raise TraceQLInvalid(f"grouping field expressions must reference the span: {stage}")
        case Select():
            for each in stage.fields:
                check_field(each)
        case Coalesce():
            pass


def _check_spanset(node: Spanset) -> None:
    match node:
        case Filter():
            check_field(node.expression)
            if type_of(node.expression) not in (Type.BOOLEAN, Type.ATTRIBUTE):
                raise TraceQLInvalid(f"span filter field expressions must resolve to a boolean: {node}")
        case SpansetOperation():
            _check_spanset(node.left)
            _check_spanset(node.right)
        case Pipeline():
            _check_pipeline(node)


def _check_scalar_filter(node: ScalarFilter) -> None:
    for side in (node.left, node.right):
        _check_scalar(side)
    if not isinstance(node.left, Aggregate):
        raise TraceQLUnsupported(f"scalar filter lhs of type ({_kind(node.left)})")
    if not isinstance(node.right, Static):
        raise TraceQLUnsupported(f"scalar filter rhs of type ({_kind(node.right)})")


def _kind(node: Scalar) -> str:
    match node:
        case Static():
            return "literal"
        case Aggregate():
            return "aggregate"
        case ScalarOperation():
            return "arithmetic"
        case ScalarPipeline():
            return "pipeline"


def _check_scalar(node: Scalar) -> None:
    match node:
        case Aggregate() if node.expression is not None:
            check_field(node.expression)
            if type_of(node.expression) not in NUMERIC | {Type.ATTRIBUTE}:
                raise TraceQLInvalid(f"aggregate field expressions must resolve to a number type: {node}")
            if not _reads_the_span(node.expression):
                raise TraceQLInvalid(f"aggregate field expressions must reference the span: {node}")
        case ScalarOperation():
            _check_scalar(node.left)
            _check_scalar(node.right)
        case ScalarPipeline():
            _check_pipeline(node.pipeline)
            _check_scalar(node.aggregate)


def _reads_the_span(node: Expression) -> bool:
    match node:
        case Static():
            return False
        case Unary():
            return _reads_the_span(node.operand)
        case Binary():
            return _reads_the_span(node.left) or _reads_the_span(node.right)
    return True
