"""Defines the tree of a query. Each node prints itself as TraceQL that reads back as the same tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from frazil.query.traceql.parse.durations import format_duration
from frazil.query.traceql.parse.literals import LEAST, write_float, write_text
from frazil.query.traceql.parse.names import NAME_ENDS, Type

Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True)
class Node:
    at: int = field(default=-1, compare=False, kw_only=True, repr=False)
    """Where the node begins in the text; -1 if it is in no text."""


# --- expressions over the fields of a span ---


@dataclass(frozen=True)
class Static(Node):
    """Is a literal."""

    type: Type
    value: Value

    def __str__(self) -> str:
        match self.type, self.value:
            case Type.STRING, str(text):
                return write_text(text)
            case Type.BOOLEAN, value:
                return "true" if value else "false"
            case Type.DURATION, int(nanoseconds):
                return format_duration(nanoseconds)
            case Type.FLOAT, float(number):
                return write_float(number)
            case Type.INT, value if value == LEAST:
                return "minInt"
        return "nil" if self.value is None else str(self.value)


@dataclass(frozen=True)
class Attribute(Node):
    scope: str
    """Empty if the query names none."""
    name: str
    parent: bool = False
    """Whether the attribute of the parent is meant."""

    def __str__(self) -> str:
        prefix = ("parent." if self.parent else "") + (self.scope + "." if self.scope or not self.parent else "")
        # `.5` would be a number, and `parent.span.x` an attribute of another scope.
        ambiguous = not self.scope and (
            self.name.startswith(("span.", "resource.")) if self.parent else self.name[0].isdigit()
        )
        return prefix + (_quoted(self.name) if ambiguous else _name(self.name))

    @property
    def key(self) -> str:
        """Returns the name without its scope, as results show it."""
        return self.name


@dataclass(frozen=True)
class Intrinsic(Node):
    name: str
    """The name that it is printed with."""

    def __str__(self) -> str:
        return self.name

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True)
class Unary(Node):
    operator: str
    """Is `-` or `!`."""
    operand: Expression

    def __str__(self) -> str:
        return f"{self.operator}{_operand(self.operand)}"


@dataclass(frozen=True)
class Binary(Node):
    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        # `-1 * .a` would read as the negative of a product.
        negative = isinstance(self.left, Static) and str(self.left).startswith("-")
        left = f"({self.left})" if negative else _operand(self.left)
        return f"{left} {self.operator} {_operand(self.right)}"


Field: TypeAlias = Attribute | Intrinsic
Expression: TypeAlias = Static | Attribute | Intrinsic | Unary | Binary


# --- spansets, and what comes after them ---


@dataclass(frozen=True)
class Filter(Node):
    expression: Expression

    def __str__(self) -> str:
        return f"{{ {self.expression} }}"


@dataclass(frozen=True)
class SpansetOperation(Node):
    """Joins two spansets; its sides are pipelines where they stand in parentheses."""

    operator: str
    left: Spanset
    right: Spanset

    def __str__(self) -> str:
        wrapped = isinstance(self.left, Pipeline) or isinstance(self.right, Pipeline)
        return f"{_side(self.left, wrapped)} {self.operator} {_side(self.right, wrapped)}"


@dataclass(frozen=True)
class Aggregate(Node):
    """Is one number for each spanset: `count()`, or `max(duration)`."""

    function: str
    expression: Expression | None = None

    def __str__(self) -> str:
        return f"{self.function}({'' if self.expression is None else self.expression})"


@dataclass(frozen=True)
class ScalarOperation(Node):
    operator: str
    left: Scalar
    right: Scalar

    def __str__(self) -> str:
        return f"{_scalar(self.left)} {self.operator} {_scalar(self.right)}"


@dataclass(frozen=True)
class ScalarFilter(Node):
    operator: str
    left: Scalar
    right: Scalar

    def __str__(self) -> str:
        return f"{_scalar(self.left)} {self.operator} {_scalar(self.right)}"


@dataclass(frozen=True)
class GroupBy(Node):
    expression: Expression

    def __str__(self) -> str:
        return f"by({self.expression})"


@dataclass(frozen=True)
class Coalesce(Node):
    def __str__(self) -> str:
        return "coalesce()"


@dataclass(frozen=True)
class Select(Node):
    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"select({', '.join(map(str, self.fields))})"


@dataclass(frozen=True)
class Pipeline(Node):
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.stages))


@dataclass(frozen=True)
class ScalarPipeline(Node):
    """Is a pipeline in parentheses that ends in a number."""

    pipeline: Pipeline
    aggregate: Aggregate

    def __str__(self) -> str:
        return f"({self.pipeline} | {self.aggregate})"


Spanset: TypeAlias = Filter | SpansetOperation | Pipeline
Scalar: TypeAlias = Static | Aggregate | ScalarOperation | ScalarPipeline
Stage: TypeAlias = Filter | SpansetOperation | ScalarFilter | GroupBy | Coalesce | Select


# --- metrics ---


@dataclass(frozen=True)
class MetricsFunction(Node):
    name: str
    field: Field | None = None
    numbers: tuple[Static, ...] = ()
    """The quantiles of `quantile_over_time`; the numbers of `compare`."""
    filter: Filter | None = None
    """The selection of `compare`."""
    by: tuple[Field, ...] = ()

    def __str__(self) -> str:
        given = [str(each) for each in (self.field, self.filter, *self.numbers) if each is not None]
        by = f" by({', '.join(map(str, self.by))})" if self.by else ""
        return f"{self.name}({', '.join(given)}){by}"


@dataclass(frozen=True)
class MetricsQuery(Node):
    pipeline: Pipeline
    function: MetricsFunction

    def __str__(self) -> str:
        return f"{self.pipeline} | {self.function}"


@dataclass(frozen=True)
class MetricsOperation(Node):
    operator: str
    left: Metrics | Static
    right: Metrics | Static

    def __str__(self) -> str:
        return f"{_metrics(self.left)} {self.operator} {_metrics(self.right)}"


@dataclass(frozen=True)
class Limit(Node):
    """Keeps the series with the largest or smallest values, at each moment."""

    function: str
    limit: int

    def __str__(self) -> str:
        return f"| {self.function}({self.limit})"


@dataclass(frozen=True)
class Threshold(Node):
    """Keeps the samples for which the comparison is true."""

    operator: str
    value: Static

    def __str__(self) -> str:
        return f"{self.operator} {self.value}"


@dataclass(frozen=True)
class SecondStages(Node):
    metrics: MetricsQuery | MetricsOperation | SecondStages
    stages: tuple[Limit | Threshold, ...]

    def __str__(self) -> str:
        inner = f"({self.metrics})" if isinstance(self.metrics, SecondStages) else str(self.metrics)
        return " ".join([inner, *map(str, self.stages)])


Metrics: TypeAlias = MetricsQuery | MetricsOperation | SecondStages


@dataclass(frozen=True)
class Hint(Node):
    name: str
    value: Static

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class Query(Node):
    body: Pipeline | ScalarFilter | Metrics
    """A scalar filter stands alone where it compares pipelines in parentheses."""
    hints: tuple[Hint, ...] = ()
    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        hints = f" with({', '.join(map(str, self.hints))})" if self.hints else ""
        return f"{self.body}{hints}"

    def hint(self, name: str, kind: Type) -> Value:
        """Returns the value of the last hint of this name and type; None if there is none."""
        found = [each.value.value for each in self.hints if each.name == name and each.value.type is kind]
        return found[-1] if found else None


def _operand(node: Expression) -> str:
    return f"({node})" if isinstance(node, Unary | Binary) else str(node)


def _side(node: Spanset, wrapped: bool) -> str:
    return str(node) if isinstance(node, Filter) and not wrapped else f"({node})"


def _scalar(node: Scalar) -> str:
    return f"({node})" if isinstance(node, ScalarOperation) else str(node)


def _metrics(node: Metrics | Static) -> str:
    return str(node) if isinstance(node, Static) else f"({node})"


def _name(name: str) -> str:
    plain = not any(each in NAME_ENDS or each == '"' or each.isspace() for each in name)
    return name if plain else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
