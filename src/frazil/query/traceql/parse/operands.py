"""Says which parts of a query may stand beside which operators, and what they become.

Spansets, numbers and metrics share the symbols of their operators and the parentheses. So all are parsed alike, and
each part carries its kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from frazil.query.traceql.parse.folding import fold_binary
from frazil.query.traceql.parse.names import COMPARISONS, STRUCTURAL, Type
from frazil.query.traceql.parse.token_stream import TokenStream
from frazil.query.traceql.parse.tokens import Token
from frazil.query.traceql.parse.tree import (
    Coalesce,
    Filter,
    GroupBy,
    Metrics,
    MetricsOperation,
    MetricsQuery,
    Pipeline,
    Scalar,
    ScalarFilter,
    ScalarOperation,
    SecondStages,
    Select,
    Spanset,
    SpansetOperation,
    Stage,
    Static,
)

Kind: TypeAlias = Literal[
    "spanset", "pipeline", "stage", "scalar", "constant", "durations", "scalar pipeline", "scalar filter",
    "pipeline filter", "metrics",
]  # fmt: skip
METRICS: Kind = "metrics"
PLAIN_STAGES: frozenset[Kind] = frozenset({"spanset", "stage", "scalar filter"})

_Part: TypeAlias = (
    Filter | SpansetOperation | Pipeline | Scalar | ScalarFilter | GroupBy | Coalesce | Select | Metrics
)
_COMPARISONS = frozenset(COMPARISONS)
_JOINS = frozenset({"&&", "||", *STRUCTURAL})
_OF_NUMBERS = frozenset("+-*/%^")
_OF_METRICS = frozenset("+-*/")
_ALLOWED: dict[Kind, frozenset[str]] = {
    "spanset": _JOINS,
    "pipeline": _JOINS,
    "scalar": _OF_NUMBERS | _COMPARISONS,
    "constant": _OF_NUMBERS,
    "durations": _OF_NUMBERS,
    "scalar pipeline": _OF_NUMBERS | _COMPARISONS,
    "metrics": _OF_METRICS,
}


@dataclass(frozen=True)
class Operand:
    kind: Kind
    node: _Part
    start: Token
    wrapped: bool = False
    """Whether it stands in parentheses."""

    def in_parentheses(self, start: Token) -> Operand:
        return replace(self, start=start, wrapped=True)

    def check_before(self, operator: Token, tokens: TokenStream) -> None:
        """Refuses an operator that cannot stand behind this operand."""
        if operator.kind not in _ALLOWED.get(self.kind, frozenset()):
            raise tokens.unexpected(operator)

    def as_stage(self, tokens: TokenStream) -> Stage:
        if self.kind not in PLAIN_STAGES:
            raise tokens.unexpected()
        return cast(Stage, self.node)

    def as_body(self, tokens: TokenStream) -> Pipeline | ScalarFilter | Metrics:
        match self.node:
            case Pipeline() | MetricsQuery() | MetricsOperation() | SecondStages():
                return self.node
            case ScalarFilter() if self.kind == "pipeline filter":
                return self.node
            case SpansetOperation() | Filter():
                return Pipeline((self.node,), at=self.node.at)
        stage = self.as_stage(tokens)
        return Pipeline((stage,), at=stage.at)


def combine(tokens: TokenStream, operator: Token, left: Operand, right: Operand, after: Token) -> Operand:
    """Joins two operands. What does not fit is reported at `after`, the token behind the operator."""
    found = _combined(operator.kind, left, right)
    if found is None:
        expecting = ("{", "(") if left.kind == "spanset" else ()
        raise tokens.unexpected(after, expecting)
    kind, node = found
    return Operand(kind, node, left.start, left.wrapped and right.wrapped)


def _combined(symbol: str, left: Operand, right: Operand) -> tuple[Kind, _Part] | None:
    sides = (left.kind, right.kind)
    at = left.node.at
    if symbol in _JOINS and set(sides) <= {"spanset", "pipeline"}:
        if "pipeline" in sides and not (left.wrapped and right.wrapped):
            return None
        operation = SpansetOperation(symbol, cast(Spanset, left.node), cast(Spanset, right.node), at=at)
        return ("pipeline" if "pipeline" in sides else "spanset"), operation
    if symbol in _COMPARISONS:
        return _compared(symbol, left, right)
    if symbol in _OF_METRICS and METRICS in sides and set(sides) <= {METRICS, "constant"}:
        numbers = [each.node for each in (left, right) if isinstance(each.node, Static)]
        if any(each.type is Type.DURATION for each in numbers):
            return None
        return METRICS, MetricsOperation(symbol, cast(Metrics, left.node), cast(Metrics, right.node), at=at)
    if sides == ("scalar pipeline", "scalar pipeline"):
        return "scalar pipeline", ScalarOperation(symbol, cast(Scalar, left.node), cast(Scalar, right.node), at=at)
    if set(sides) <= {"scalar", "constant", "durations"}:
        return _calculated(symbol, left, right)
    return None


def _compared(symbol: str, left: Operand, right: Operand) -> tuple[Kind, _Part] | None:
    constant = right.kind in ("constant", "durations")
    node = ScalarFilter(symbol, cast(Scalar, left.node), cast(Scalar, right.node), at=left.node.at)
    if left.kind == "scalar" and (constant or right.kind == "scalar"):
        return "scalar filter", node
    if left.kind == "scalar pipeline" and (constant or right.kind == "scalar pipeline"):
        return "pipeline filter", node
    return None


def _calculated(symbol: str, left: Operand, right: Operand) -> tuple[Kind, _Part]:
    one, other = left.node, right.node
    if isinstance(one, Static) and isinstance(other, Static):
        folded = fold_binary(symbol, one, other, one.at)
        if folded is not None:
            return "constant", folded
    operation = ScalarOperation(symbol, cast(Scalar, one), cast(Scalar, other), at=one.at)
    return ("scalar" if "scalar" in (left.kind, right.kind) else "durations"), operation
