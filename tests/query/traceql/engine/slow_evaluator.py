"""Answers queries span by span in plain Python. It walks trees, and shares only the parser with the kernels."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import (
    Aggregate,
    Attribute,
    Coalesce,
    Expression,
    Filter,
    GroupBy,
    Intrinsic,
    Pipeline,
    ScalarFilter,
    Select,
    Spanset,
    SpansetOperation,
    Static,
    Unary,
)

TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "min": min,
    "max": max,
    "avg": lambda each: sum(each) / len(each),
    "sum": lambda each: sum(number for number in each if type(number) is type(each[0])),
}
MATCHES = {"=~": True, "!~": False}


@dataclass(eq=False)
class SlowSpan:
    trace: int
    id: int
    parent: int
    name: str = ""
    kind: int = 0
    service: str | None = None
    start: int = 0
    took: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    above: SlowSpan | str | None = None
    """The parent; `root`, or `broken`."""
    numbers: tuple[int, int, int] = (0, 0, 0)


@dataclass
class Words:
    """A value of status or kind."""

    text: str


def traces_of(spans: list[SlowSpan]) -> dict[int, list[SlowSpan]]:
    found: dict[int, dict[tuple[int, int], SlowSpan]] = {}
    for span in sorted(spans, key=lambda span: (span.trace, span.start, span.id, span.kind)):
        found.setdefault(span.trace, {}).setdefault((span.id, span.kind), span)
    traces = {trace: list(spans.values()) for trace, spans in found.items()}
    for each in traces.values():
        _connect(each)
    return traces


def _connect(spans: list[SlowSpan]) -> None:
    given: dict[SlowSpan, SlowSpan | str] = {}
    for span in spans:
        alike = [each for each in spans if each.id == span.parent]
        if len(alike) == 2:
            alike = [each for each in alike if each.kind == (3 if span.kind == 2 else 2)][:1]
        given[span] = (
            "root" if not span.parent else alike[0] if len(alike) == 1 and alike[0] is not span else "broken"
        )
    for span in spans:
        seen: set[SlowSpan] = set()
        at: SlowSpan | str = span
        while isinstance(at, SlowSpan) and at not in seen:
            seen.add(at)
            at = given[at]
        span.above = given[span] if at == "root" else "broken"
    number = 1
    for root in spans:
        if root.above == "root":
            number = _number(root, spans, number, -1)


def _number(span: SlowSpan, spans: list[SlowSpan], number: int, above: int) -> int:
    left, number = number, number + 1
    for child in spans:
        if child.above is span:
            number = _number(child, spans, number, left)
    span.numbers = (left, number, above)
    return number + 1


def ancestors(span: SlowSpan) -> Iterator[SlowSpan]:
    while isinstance(span.above, SlowSpan):
        span = span.above
        yield span


def related(symbol: str, chosen: SlowSpan, span: SlowSpan) -> bool:
    """Tells whether `{chosen} symbol {span}` holds."""
    match symbol:
        case ">":
            return span.above is chosen
        case "<":
            return chosen.above is span
        case ">>":
            return chosen in ancestors(span)
        case "<<":
            return span in ancestors(chosen)
    return span is not chosen and span.above != "broken" and span.above == chosen.above


class SlowEvaluator:
    def __init__(self, trace: list[SlowSpan], exact: set[str]) -> None:
        self.trace = trace
        self.exact = exact
        """The attributes that are compared with literals of one type only."""

    def run(self, pipeline: Pipeline, sets: list[list[SlowSpan]]) -> list[list[SlowSpan]]:
        for stage in pipeline.stages:
            match stage:
                case Filter() | SpansetOperation():
                    sets = [self.spanset(stage, spans) for spans in sets]
                case ScalarFilter():
                    assert isinstance(stage.left, Aggregate)
                    assert isinstance(stage.right, Static)
                    sets = [spans for spans in sets if self._passes(stage.left, stage.operator, stage.right, spans)]
                case GroupBy():
                    sets = [each for spans in sets for each in self._groups(stage.expression, spans)]
                case Coalesce():
                    joined = {span for spans in sets for span in spans}
                    sets = [[span for span in self.trace if span in joined]]
                case Select():
                    pass
            sets = [spans for spans in sets if spans]
        return sets

    def _groups(self, expression: Expression, spans: list[SlowSpan]) -> list[list[SlowSpan]]:
        found: dict[Any, list[SlowSpan]] = {}
        for span in spans:
            value = self.value(expression, span)
            value = value.text if isinstance(value, Words) else None if isinstance(value, list) else value
            found.setdefault((type(value), value), []).append(span)
        return list(found.values())

    def _passes(self, aggregate: Aggregate, symbol: str, literal: Static, spans: list[SlowSpan]) -> bool:
        if aggregate.expression is None:
            return bool(TESTS[symbol](len(spans), literal.value))
        found = [self.value(aggregate.expression, span) for span in spans]
        numbers = [each for each in found if isinstance(each, int | float) and not isinstance(each, bool)]
        if not numbers:
            return False
        return bool(TESTS[symbol](AGGREGATES[aggregate.function](numbers), literal.value))

    def spanset(self, node: Spanset, spans: list[SlowSpan]) -> list[SlowSpan]:
        match node:
            case Filter():
                return [span for span in spans if self.true(node.expression, span)]
            case Pipeline():
                joined = {span for each in self.run(node, [spans]) for span in each}
                return [span for span in spans if span in joined]
        left, right = self.spanset(node.left, spans), self.spanset(node.right, spans)
        symbol = node.operator
        if symbol == "&&":
            kept = {*left, *right} if left and right else set()
        elif symbol == "||":
            kept = {*left, *right}
        elif symbol.startswith("!"):
            kept = {span for span in right if not any(related(symbol[1:], each, span) for each in left)}
        else:
            pairs = [(each, span) for each in left for span in right if related(symbol.lstrip("&"), each, span)]
            kept = {span for _, span in pairs}
            if symbol.startswith("&"):
                kept |= {each for each, _ in pairs}
        return [span for span in spans if span in kept]

    def true(self, node: Expression, span: SlowSpan) -> bool:
        return self.value(node, span) is True

    def value(self, node: Expression, span: SlowSpan) -> Any:
        match node:
            case Static():
                return Words(str(node.value)) if node.type in (Type.STATUS, Type.KIND) else node.value
            case Attribute():
                if node.scope in ("", "span") and node.name in span.attributes:
                    return span.attributes[node.name]
                return span.resource.get(node.name) if node.scope in ("", "resource") else None
            case Intrinsic():
                return self._intrinsic(node.name, span)
            case Unary():
                value = self.value(node.operand, span)
                if node.operator == "!":
                    return not value if isinstance(value, bool) else None
                return -value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if node.operator == "&&":
            return self.true(node.left, span) and self.true(node.right, span)
        if node.operator == "||":
            return self.true(node.left, span) or self.true(node.right, span)
        left, right = self.value(node.left, span), self.value(node.right, span)
        for literal, value in ((node.left, right), (node.right, left)):
            if isinstance(literal, Static) and literal.type is Type.NIL:
                both = isinstance(node.left, Static) and isinstance(node.right, Static)
                return not both and (value is None) == (node.operator == "=")
        if node.operator in "+-*/%":
            return self._calculated(node.operator, left, right)
        for field_, literal, value in ((node.left, right, left), (node.right, left, right)):
            if isinstance(field_, Attribute) and str(field_) in self.exact and not isinstance(value, list):
                numbers = (int, float)
                if isinstance(literal, numbers) and isinstance(value, numbers) and type(literal) is not type(value):
                    return False
        return compared(node.operator, left, right)

    def _intrinsic(self, name: str, span: SlowSpan) -> Any:
        match name:
            case "name":
                return span.name
            case "duration":
                return span.took
            case "kind":
                return Words(["unspecified", "internal", "server", "client", "producer", "consumer"][span.kind])
            case "nestedSetLeft" | "nestedSetRight" | "nestedSetParent":
                place = ["nestedSetLeft", "nestedSetRight", "nestedSetParent"].index(name)
                return span.numbers[place]
            case "rootName":
                roots = [each for each in self.trace if not each.parent]
                return min(roots, key=lambda each: each.start).name if roots else ""
            case "traceDuration":
                return max(each.start + each.took for each in self.trace) - min(each.start for each in self.trace)
        raise NotImplementedError(name)

    def _calculated(self, symbol: str, left: Any, right: Any) -> Any:
        for each in (left, right):
            if not isinstance(each, int | float) or isinstance(each, bool):
                return None
        whole = isinstance(left, int) and isinstance(right, int)
        if symbol in "/%" and right == 0:
            return None
        if symbol == "/":
            return int(left / right) if whole else left / right
        if symbol == "%":
            remainder = abs(left) % abs(right) * (1 if left >= 0 else -1)
            return int(remainder) if whole else remainder
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[symbol](left, right)


def compared(symbol: str, left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return not isinstance(right, list) and any(compared(symbol, each, right) for each in left)
    if isinstance(right, list):
        return any(compared(symbol, left, each) for each in right)
    if left is None or right is None:
        return False
    if isinstance(left, Words) and isinstance(right, Words):
        left, right = left.text, right.text
    if symbol in MATCHES:
        return isinstance(left, str) and (re.fullmatch(right, left) is not None) is MATCHES[symbol]
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (left, right))
    if not numbers and type(left) is not type(right):
        return False
    return bool(TESTS[symbol](left, right))
