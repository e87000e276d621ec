"""Parses queries: `parse(text)` returns a tree, and `str` of the tree reads back as the same tree."""

from __future__ import annotations

from frazil.ops.short_texts import remember_short
from frazil.query.traceql.errors import TraceQLError
from frazil.query.traceql.parse.constants import parse_number
from frazil.query.traceql.parse.expressions import (
    parse_expression,
    parse_field,
    parse_fields,
    parse_filter,
    parse_literal,
)
from frazil.query.traceql.parse.metrics_parser import parse_metrics_function, parse_second_stages
from frazil.query.traceql.parse.names import AGGREGATES, COMPARISONS, METRICS_FUNCTIONS, STRUCTURAL
from frazil.query.traceql.parse.operands import METRICS, PLAIN_STAGES, Operand, combine
from frazil.query.traceql.parse.token_stream import TokenStream
from frazil.query.traceql.parse.tokens import END, IDENTIFIER
from frazil.query.traceql.parse.tree import (
    Aggregate,
    Coalesce,
    Field,
    GroupBy,
    Hint,
    MetricsQuery,
    Pipeline,
    Query,
    ScalarPipeline,
    Select,
)

MAX_BYTES = 131_072

_PRECEDENCE = {
    **dict.fromkeys(("&&", "||"), 2),
    **dict.fromkeys((*COMPARISONS, *STRUCTURAL), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 6),
    "^": 7,
}


def parse(text: str) -> Query:
    """Raises `TraceQLSyntaxError` if the text is not TraceQL. What it means is for `validate` to judge."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise TraceQLError(
            f"TraceQL expression exceeds the configured maximum size of {MAX_BYTES} bytes, reduce the query "
            "expression size or contact your system administrator"
        )
    return _parse(text)


@remember_short(512)
def _parse(text: str) -> Query:
    tokens = TokenStream(text)
    body = _pipeline(tokens, outermost=True)
    hints = _hints(tokens)
    if tokens.next.kind != END:
        raise tokens.unexpected()
    return Query(body.as_body(tokens), hints, text)


def parse_attribute(text: str) -> Field:
    """Parses the name of one attribute or intrinsic. Errors count columns from a brace before it, as Tempo's do."""
    tokens = TokenStream("{" + text + "}")
    tokens.expect("{")
    if tokens.next.kind == IDENTIFIER:
        raise tokens.error(f"unknown identifier: {tokens.next.value}", tokens.next)
    found = parse_field(tokens)
    tokens.expect("}")
    tokens.expect(END)
    return found


def _pipeline(tokens: TokenStream, *, outermost: bool = False) -> Operand:
    """Parses stages with `|` between them, up to the parenthesis that closes them or the end."""
    found = _operation(tokens, 0)
    if found.kind == METRICS:
        return parse_second_stages(tokens, found)
    stages = []
    while tokens.next.kind == "|":
        if found.kind not in PLAIN_STAGES:
            raise tokens.unexpected()
        stages.append(found.as_stage(tokens))
        tokens.take()
        if tokens.next.kind in METRICS_FUNCTIONS:
            metrics = MetricsQuery(Pipeline(tuple(stages), at=stages[0].at), parse_metrics_function(tokens))
            return parse_second_stages(tokens, Operand(METRICS, metrics, found.start))
        found = _operation(tokens, 0, first=False)
        if isinstance(found.node, Aggregate) and not outermost and tokens.next.kind == ")":
            pipeline = Pipeline(tuple(stages), at=stages[0].at)
            return Operand("scalar pipeline", ScalarPipeline(pipeline, found.node), found.start)
    if not stages:
        return found
    stages.append(found.as_stage(tokens))
    return Operand("pipeline", Pipeline(tuple(stages), at=stages[0].at), found.start)


def _operation(tokens: TokenStream, least: int, *, first: bool = True) -> Operand:
    """Parses operands of any kind with operators between them; `combine` says what goes together."""
    tokens.descend()
    left = _operand(tokens, first=first)
    levels = 0
    while (power := _PRECEDENCE.get(tokens.next.kind, -1)) >= least:
        operator = tokens.next
        if left.kind == METRICS and operator.kind in COMPARISONS:
            break
        left.check_before(operator, tokens)
        tokens.take()
        after = tokens.next
        right = _operation(tokens, power if operator.kind == "^" else power + 1)
        left = combine(tokens, operator, left, right, after)
        tokens.descend()
        levels += 1
    for _ in range(levels + 1):
        tokens.ascend()
    return left


def _operand(tokens: TokenStream, *, first: bool) -> Operand:
    token = tokens.next
    match token.kind:
        case "{":
            return Operand("spanset", parse_filter(tokens), token)
        case "(":
            tokens.take()
            inner = _pipeline(tokens)
            if inner.kind in ("stage", "scalar filter"):
                inner = Operand("pipeline", Pipeline((inner.as_stage(tokens),), at=token.start), token)
            tokens.expect(")")
            return inner.in_parentheses(token)
        case "by":
            tokens.take()
            tokens.expect("(")
            expression = parse_expression(tokens)
            tokens.expect(")")
            return Operand("stage", GroupBy(expression, at=token.start), token)
        case "coalesce" if not first:
            tokens.take()
            tokens.expect("(")
            tokens.expect(")")
            return Operand("stage", Coalesce(at=token.start), token)
        case "select":
            tokens.take()
            return Operand("stage", Select(parse_fields(tokens), at=token.start), token)
        case kind if kind in AGGREGATES:
            return Operand("scalar", _aggregate(tokens), token)
    return Operand("constant", parse_number(tokens), token)


def _aggregate(tokens: TokenStream) -> Aggregate:
    name = tokens.take()
    tokens.expect("(")
    expression = None if name.kind == "count" else parse_expression(tokens)
    tokens.expect(")")
    return Aggregate(name.kind, expression, at=name.start)


def _hints(tokens: TokenStream) -> tuple[Hint, ...]:
    found: list[Hint] = []
    while tokens.takes("with"):
        tokens.expect("(")
        found.append(_hint(tokens))
        while tokens.takes(","):
            found.append(_hint(tokens))
        tokens.expect(")")
    return tuple(found)


def _hint(tokens: TokenStream) -> Hint:
    name = tokens.expect(IDENTIFIER)
    tokens.expect("=")
    if tokens.next.kind == "-":
        return Hint(str(name.value), parse_number(tokens), at=name.start)
    token = tokens.take()
    literal = parse_literal(token)
    if literal is None:
        raise tokens.unexpected(token)
    return Hint(str(name.value), literal, at=name.start)
