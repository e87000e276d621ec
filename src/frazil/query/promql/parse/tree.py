"""Defines the nodes of a query's tree. Each knows its position and prints itself back (`str()`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from frazil.query.promql.parse.literals import milliseconds, print_duration, print_label, print_number, quote
from frazil.query.promql.types import ValueType

METRIC_NAME = "__name__"


MatchOp = Literal["=", "!=", "=~", "!~"]
Boundary = Literal["start", "end"]


@dataclass(frozen=True)
class Matcher:
    """Is one condition on one label."""

    name: str
    op: MatchOp
    value: str

    def __str__(self) -> str:
        return f"{print_label(self.name)}{self.op}{quote(self.value)}"


@dataclass
class Node:
    """Is what all nodes share: where the text of the node begins and ends."""

    start: int = field(default=0, compare=False, kw_only=True)
    end: int = field(default=0, compare=False, kw_only=True)

    @property
    def type(self) -> ValueType:
        return ValueType.NONE

    def children(self) -> Iterator[Node]:
        """Returns the expressions right below this one, in the order of the text."""
        return iter(())


@dataclass
class NumberLiteral(Node):
    value: float
    duration: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.SCALAR

    def __str__(self) -> str:
        return print_duration(milliseconds(self.value)) if self.duration else print_number(self.value)


@dataclass
class StringLiteral(Node):
    value: str

    @property
    def type(self) -> ValueType:
        return ValueType.STRING

    def __str__(self) -> str:
        return quote(self.value)


@dataclass
class DurationExpression(Node):
    """Computes a duration: of two operands, of one (`left` is None), or of the query (`step()`, `range()`)."""

    op: str
    left: Duration | None = None
    right: Duration | None = None
    wrapped: bool = False

    def __str__(self) -> str:
        if self.op in ("step", "range"):
            text = f"{self.op}()"
        elif self.op in ("min_of", "max_of"):
            text = f"{self.op}({self.left}, {self.right})"
        elif self.left is None:
            text = f"-{self.right}" if self.op == "-" else str(self.right)
        else:
            text = f"{self.left} {self.op} {self.right}"
        return f"({text})" if self.wrapped else text


Duration = NumberLiteral | DurationExpression


def print_range(duration: Duration) -> str:
    """Prints a duration in brackets or after `offset`: numbers become durations."""
    if isinstance(duration, NumberLiteral):
        return print_duration(milliseconds(duration.value))
    return str(duration)


@dataclass
class Timed(Node):
    """Is what selectors and subqueries share: the modifiers of time."""

    offset: Duration | None = field(default=None, kw_only=True)
    at: float | Boundary | None = field(default=None, kw_only=True)
    """Seconds since 1970, in whole milliseconds."""

    def print_at(self) -> str:
        if self.at is None:
            return ""
        return f" @ {self.at}()" if isinstance(self.at, str) else f" @ {self.at:.3f}"

    def print_offset(self) -> str:
        if self.offset is None or (isinstance(self.offset, NumberLiteral) and self.offset.value == 0):
            return ""
        return f" offset {print_range(self.offset)}"


@dataclass
class VectorSelector(Timed):
    name: str
    """The name that stands outside braces; a quoted one inside is a matcher."""
    matchers: list[Matcher] = field(default_factory=list)
    anchored: bool = False
    smoothed: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR

    @property
    def all_matchers(self) -> list[Matcher]:
        """The matchers, with that of the name."""
        return [*self.matchers, Matcher(METRIC_NAME, "=", self.name)] if self.name else self.matchers

    def print_extension(self) -> str:
        return " anchored" if self.anchored else " smoothed" if self.smoothed else ""

    def print_bare(self) -> str:
        """Prints name and matchers without the modifiers."""
        texts = sorted(map(str, self.matchers))
        return f"{self.name}{{{','.join(texts)}}}" if texts or not self.name else self.name

    def __str__(self) -> str:
        return self.print_bare() + self.print_at() + self.print_extension() + self.print_offset()


@dataclass
class MatrixSelector(Node):
    selector: VectorSelector
    range: Duration

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def children(self) -> Iterator[Node]:
        yield self.selector

    def __str__(self) -> str:
        inner = self.selector
        modifiers = inner.print_extension() + inner.print_at() + inner.print_offset()
        return f"{inner.print_bare()}[{print_range(self.range)}]{modifiers}"


@dataclass
class Subquery(Timed):
    expression: Node
    range: Duration
    step: Duration | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def children(self) -> Iterator[Node]:
        yield self.expression

    def print_suffix(self) -> str:
        step = "" if self.step is None else print_range(self.step)
        return f"[{print_range(self.range)}:{step}]{self.print_at()}{self.print_offset()}"

    def __str__(self) -> str:
        return f"{self.expression}{self.print_suffix()}"


@dataclass
class Paren(Node):
    expression: Node

    @property
    def type(self) -> ValueType:
        return self.expression.type

    def children(self) -> Iterator[Node]:
        yield self.expression

    def __str__(self) -> str:
        return f"({self.expression})"


@dataclass
class Unary(Node):
    op: str
    expression: Node

    @property
    def type(self) -> ValueType:
        return self.expression.type

    def children(self) -> Iterator[Node]:
        yield self.expression

    def __str__(self) -> str:
        return f"{self.op}{self.expression}"


Cardinality = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]


@dataclass
class Matching:
    """Says which elements of two vectors belong together."""

    cardinality: Cardinality = "one-to-one"
    labels: list[str] = field(default_factory=list)
    on: bool = False
    include: list[str] = field(default_factory=list)
    fill_left: float | None = None
    fill_right: float | None = None

    def __str__(self) -> str:
        grouped = self.cardinality in ("many-to-one", "one-to-many")
        text = ""
        if self.labels or self.on or grouped:
            text += f" {'on' if self.on else 'ignoring'} ({print_labels(self.labels)})"
        if grouped:
            side = "left" if self.cardinality == "many-to-one" else "right"
            text += f" group_{side} ({print_labels(self.include)})"
        if self.fill_left is not None and self.fill_left == self.fill_right:
            return text + f" fill ({print_shortest(self.fill_left)})"
        if self.fill_left is not None:
            text += f" fill_left ({print_shortest(self.fill_left)})"
        if self.fill_right is not None:
            text += f" fill_right ({print_shortest(self.fill_right)})"
        return text


def print_labels(names: list[str]) -> str:
    return ", ".join(print_label(name) for name in names)


def print_shortest(value: float) -> str:
    """Prints a float as Go's `%v` does: with an exponent below 1e-4 and from a million on."""
    if value != value or value in (float("inf"), float("-inf")) or value == 0 or 1e-4 <= abs(value) < 1e6:
        return print_number(value)
    digits = Decimal(repr(value)).normalize()
    sign, figures, _ = digits.as_tuple()
    text = "".join(map(str, figures))
    mantissa = f"{text[0]}.{text[1:]}" if text[1:] else text[0]
    exponent = digits.adjusted()
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


@dataclass
class Binary(Node):
    op: str
    left: Node
    right: Node
    bool_modifier: bool = False
    matching: Matching | None = None
    """None unless both operands are vectors."""
    operator_at: int = field(default=0, compare=False)

    @property
    def type(self) -> ValueType:
        both = self.left.type == ValueType.SCALAR == self.right.type
        return ValueType.SCALAR if both else ValueType.VECTOR

    def children(self) -> Iterator[Node]:
        yield self.left
        yield self.right

    def print_operator(self) -> str:
        return f"{self.op}{' bool' if self.bool_modifier else ''}{self.matching or ''}"

    def __str__(self) -> str:
        return f"{self.left} {self.print_operator()} {self.right}"


@dataclass
class Aggregate(Node):
    op: str
    expression: Node
    parameter: Node | None = None
    grouping: list[str] = field(default_factory=list)
    without: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR

    def children(self) -> Iterator[Node]:
        if self.parameter is not None:
            yield self.parameter
        yield self.expression

    def print_operator(self) -> str:
        if self.without:
            return f"{self.op} without ({print_labels(self.grouping)}) "
        return f"{self.op} by ({print_labels(self.grouping)}) " if self.grouping else self.op

    def __str__(self) -> str:
        parameter = "" if self.parameter is None else f"{self.parameter}, "
        return f"{self.print_operator()}({parameter}{self.expression})"


@dataclass
class Call(Node):
    function: str
    arguments: list[Node]
    returns: ValueType = ValueType.VECTOR

    @property
    def type(self) -> ValueType:
        return self.returns

    def children(self) -> Iterator[Node]:
        return iter(self.arguments)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


def depth(node: Node) -> int:
    """Returns how many levels a tree has."""
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [child for parent in level for child in parent.children()]
    return deepest


def walk(node: Node) -> Iterator[Node]:
    """Returns the node and everything below it."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(node.children())))


def unwrap(node: Node) -> Node:
    """Returns the node inside any parentheses."""
    while isinstance(node, Paren):
        node = node.expression
    return node
