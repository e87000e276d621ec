"""Turns Arrow expressions, as DuckDB and users give them, into predicates.

Arrow gives no access to the parts of an expression, but it can write one as a message of Substrait, and that is read
here. What cannot be written, or what a predicate cannot say, remains an expression, which is applied to the rows that
the predicate leaves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from google.protobuf.message import DecodeError

from frazil.errors import CallError
from frazil.log.topics.naming import hint
from frazil.scan.predicates.arrow import check
from frazil.scan.predicates.simplify import FALSE, TRUE, all_of
from frazil.scan.predicates.substrait_messages import ExtendedExpression
from frazil.scan.predicates.terms import columns_of
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Value,
)

_COMPARISONS: dict[str, tuple[Operator, Operator]] = {
    # The first is for a literal on the right, the second for a literal on the left.
    "equal": ("==", "=="),
    "not_equal": ("!=", "!="),
    "lt": ("<", ">"),
    "lte": ("<=", ">="),
    "gt": (">", "<"),
    "gte": (">=", "<="),
}
_MISSING = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ")
_POSITION = re.compile(r"(?:^|[( ])FieldPath\(")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_HEAVIEST = 2**14
"""An expression of this weight is written as about a megabyte, in 50 ms."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Translated(NamedTuple):
    """Chooses the rows that an expression chooses: those for which both are true, where they are given."""

    predicate: Predicate | None
    rest: pc.Expression | None
    columns: tuple[str, ...]
    """These columns are used, by either."""


def from_arrow(expression: pc.Expression, schema: pa.Schema) -> Translated:
    """Raises `CallError` if the expression makes no sense for rows of this schema."""
    expressible = pa.schema([field for field in schema if _is_known(field.type)])
    if not _is_short(expression, schema):
        return Translated(None, expression, columns_in(expression, schema))
    try:
        message = ExtendedExpression.FromString(bytes(expression.to_substrait(expressible)))
    except (pa.ArrowException, DecodeError):
        return Translated(None, expression, columns_in(expression, schema))
    names = {each.function.anchor: each.function.name for each in message.extensions}
    reading = _Reading(expressible, names)
    found, complete = reading.conjuncts(message.expressions[0].expression)
    if complete:
        return Translated(found, None, columns_of(found, schema.names))
    return Translated(found, expression, columns_in(expression, schema))


def _is_short(expression: pc.Expression, schema: pa.Schema) -> bool:
    """Returns whether Arrow writes the expression in little time. What it writes doubles with each level of calls."""
    if any('"' in name for name in schema.names):
        return False
    depth = weight = 0
    for sign in re.findall("[()]", _QUOTED.sub("", str(expression))):
        depth += 1 if sign == "(" else -1
        weight += 2 ** max(depth, 0) if sign == "(" else 0
        if weight > _HEAVIEST:
            return False
    return True


def columns_in(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Returns the columns that an expression uses: those without which it cannot be evaluated.

    Raises `CallError` if it cannot be evaluated with all of them, or has a column by position.
    """
    if _POSITION.search(_QUOTED.sub("", str(expression))):
        raise CallError(f"Columns are used by position in {expression}. Name them.")
    if (problem := _problem(expression, schema)) is not None:
        missing = _MISSING.match(str(problem))
        why = f"there is no column {missing[1]!r}{hint(missing[1], schema.names)}" if missing else str(problem)
        raise CallError(f"These rows cannot be chosen by {expression}: {why}.")
    return tuple(
        field.name for index, field in enumerate(schema) if _problem(expression, schema.remove(index)) is not None
    )


def _problem(expression: pc.Expression, schema: pa.Schema) -> Exception | None:
    try:
        ds.dataset(schema.empty_table()).scanner(filter=expression)
    except (pa.ArrowException, TypeError, ValueError) as error:
        return error
    return None


@lru_cache(1024)
def _is_known(kind: pa.DataType) -> bool:
    """Returns whether Substrait has this type."""
    try:
        pc.scalar(True).to_substrait(pa.schema([("column", kind)]))
    except pa.ArrowException:
        return False
    return True


class _Untranslatable(Exception):
    """Raised for a part of an expression that is no predicate."""


class _Reading:
    def __init__(self, schema: pa.Schema, functions: Mapping[int, str]) -> None:
        self._schema = schema
        self._functions = functions

    def conjuncts(self, expression: Any) -> tuple[Predicate | None, bool]:
        """Returns the conjunction of those parts that can be translated, and whether these are all."""
        if expression.HasField("call") and self._functions.get(expression.call.function) == "and":
            parts = [self.conjuncts(each.value) for each in expression.call.arguments]
            return all_of(*(part for part, _ in parts)), all(complete for _, complete in parts)
        try:
            found = self._predicate(expression)
            check(found, self._schema)
        except (_Untranslatable, CallError):
            return None, False
        return found, True

    def _predicate(self, expression: Any) -> Predicate:
        if expression.HasField("call"):
            return self._call(expression.call)
        if expression.HasField("among"):
            values = frozenset(_value(each.literal) for each in expression.among.options)
            if any(value != value for value in values):
                # Arrow finds NaN in a list that has it, though it is equal to nothing.
                raise _Untranslatable
            return In(self._column(expression.among.value), values)
        if expression.HasField("if_then"):
            return self._if_valid(expression.if_then)
        if expression.HasField("selection"):
            return Comparison(self._column(expression), "==", True)
        if expression.HasField("literal") and expression.literal.HasField("boolean"):
            return TRUE if expression.literal.boolean else FALSE
        raise _Untranslatable

    def _if_valid(self, chosen: Any) -> Predicate:
        """DuckDB writes `column in (…)` as one that is null, instead of false, where the column is null."""
        if len(chosen.ifs) == 1 and chosen.otherwise.literal.HasField("null"):
            condition, then = (self._predicate(each) for each in (chosen.ifs[0].condition, chosen.ifs[0].then))
            if isinstance(then, In | Comparison) and condition == Not(IsNull(then.term)):
                return then
        raise _Untranslatable

    def _call(self, call: Any) -> Predicate:
        name = self._functions.get(call.function)
        arguments = [each.value for each in call.arguments]
        options = {each.name: tuple(each.preference) for each in call.options}
        match name, arguments:
            case "and", _:
                return And(tuple(map(self._predicate, arguments)))
            case "or", _:
                return Or(tuple(map(self._predicate, arguments)))
            case "not", [child]:
                return Not(self._predicate(child))
            case "is_null", [column] if not options:
                return IsNull(self._column(column))
            case "is_not_null", [column]:
                return Not(IsNull(self._column(column)))
            case "starts_with", [column, text] if options == {"case_sensitivity": ("CASE_SENSITIVE",)}:
                return StartsWith(self._column(column), _text(text))
            case "contains", [column, text] if options.keys() == {"case_sensitivity"}:
                ignore_case = options["case_sensitivity"] != ("CASE_SENSITIVE",)
                return Contains(self._column(column), _text(text), ignore_case)
            case str(), [left, right] if name in _COMPARISONS and not options:
                if left.HasField("literal"):
                    return Comparison(self._column(right), _COMPARISONS[name][1], _value(left.literal))
                return Comparison(self._column(left), _COMPARISONS[name][0], _value(right.literal))
        raise _Untranslatable

    def _column(self, expression: Any) -> Column:
        if not expression.selection.HasField("direct"):
            raise _Untranslatable
        segment, fields, names = expression.selection.direct, self._schema, []
        while segment.HasField("struct"):
            field = fields.field(segment.struct.field)
            names.append(field.name)
            fields, segment = field.type, segment.struct.child
        found = Column(".".join(names))
        # A name with dots may be that of another column.
        if not names or (len(names) > 1 and found.name in self._schema.names):
            raise _Untranslatable
        return found


def _text(expression: Any) -> str:
    found = _value(expression.literal)
    if not isinstance(found, str):
        raise _Untranslatable
    return found


def _value(literal: Any) -> Value:
    for field, value in literal.ListFields():
        match field.name:
            case "decimal":
                unscaled = int.from_bytes(value.value, "little", signed=True)
                return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -value.scale))
            case "date":
                return _moment(value * 86_400_000_000).date()
            case "timestamp_tz":
                return _moment(value)
            case "timestamp":
                return _moment(value).replace(tzinfo=None)
            case "time":
                return _moment(value).time()
            case "null":
                raise _Untranslatable
        plain: bool | int | float | str | bytes = value
        return plain
    raise _Untranslatable


def _moment(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError as error:
        # Python has no such years, but Arrow has.
        raise _Untranslatable from error
