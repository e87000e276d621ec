"""Finds out which of many files, row groups or pages may have wanted rows, from what is known of their columns.

The answer errs on one side only: what is left out has no such row. Bounds say nothing of NaN, as in Iceberg and
Parquet, and text may have been cut to make them; all that is relied on is that no other value lies outside of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_floating

from frazil.scan.predicates.arrow import Leaf, check
from frazil.scan.predicates.buckets import Buckets
from frazil.scan.predicates.fitting import comparable_type, fit, fit_all
from frazil.scan.predicates.simplify import negate_leaves
from frazil.scan.predicates.terms import path_of, value_type
from frazil.scan.predicates.tree import (
    And,
    Comparison,
    In,
    IsNull,
    MapValue,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
)

Flags: TypeAlias = npt.NDArray[np.bool_]

MOST_VALUES = 200
"""Each of so many values is compared with the bounds, of more only the least and the greatest."""

_OPPOSITE: dict[Operator, Operator] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class ColumnStatistics:
    """Is what is known of one column: in each array, one item for each file (or row group, or page).

    What is unknown is null, or None if it is unknown for all of them.
    """

    lower: pa.Array | None = None
    """No value is less than this, except NaN."""
    upper: pa.Array | None = None
    nulls: pa.Array | None = None
    """Counts the values that are null."""
    values: pa.Array | None = None
    """Counts the values, those that are null and NaN included."""
    buckets: Buckets | None = None
    """Says which hash the values have, where files are partitioned by it."""


def may_match(
    predicate: Predicate, schema: pa.Schema, statistics: Mapping[str, ColumnStatistics], count: int
) -> Flags:
    """Returns for each of `count` files whether it may have rows for which the predicate is true.

    `statistics` has columns by the name that the predicate uses; nothing is known of others. The bounds may have
    another type than the column has in `schema`: those that cannot be expressed in its type are taken as unknown.
    Raises `CallError` if the predicate makes no sense for this schema.
    """
    check(predicate, schema)
    return _Pruning(schema, statistics, count).may_be_true(negate_leaves(predicate))


class _Pruning:
    def __init__(self, schema: pa.Schema, statistics: Mapping[str, ColumnStatistics], count: int) -> None:
        self._schema = schema
        self._statistics = statistics
        self._count = count

    def may_be_true(self, predicate: Predicate) -> Flags:
        match predicate:
            case And(children):
                found = self._all(True)
                for child in children:
                    found = found & self.may_be_true(child)
                return found
            case Or(children):
                found = self._all(False)
                for child in children:
                    found = found | self.may_be_true(child)
                return found
            case Not(child):
                assert not isinstance(child, Not | And | Or)
                return self._leaf(child, negated=True)
        return self._leaf(predicate, negated=False)

    def _all(self, value: bool) -> Flags:
        return np.full(self._count, value, np.bool_)

    def _leaf(self, leaf: Leaf, *, negated: bool) -> Flags:
        if isinstance(leaf.term, MapValue):
            known = self._statistics.get(leaf.term.column, ColumnStatistics())
            return self._all(True) if isinstance(leaf, IsNull) else self._has_values(known)
        known = self._statistics.get(leaf.term.name, ColumnStatistics())
        if isinstance(leaf, IsNull):
            return self._has_values(known) if negated else self._has_nulls(known)
        kind = value_type(path_of(leaf.term, self._schema)[1])
        bounds = _Bounds.of(known, kind, self._count)
        return self._has_values(known) & self._flags(_within(leaf, bounds, kind, negated))

    def _has_nulls(self, known: ColumnStatistics) -> Flags:
        return self._all(True) if known.nulls is None else self._flags(pc.greater(known.nulls, 0))

    def _has_values(self, known: ColumnStatistics) -> Flags:
        if known.nulls is None or known.values is None:
            return self._all(True)
        return self._flags(pc.greater(known.values, known.nulls))

    def _flags(self, found: pa.Array | bool) -> Flags:
        """What is unknown may be true."""
        if isinstance(found, bool):
            return self._all(found)
        flags: Flags = found.fill_null(True).to_numpy(zero_copy_only=False)
        return flags


@dataclass(frozen=True)
class _Bounds:
    lower: pa.Array
    upper: pa.Array
    buckets: Buckets | None

    @classmethod
    def of(cls, known: ColumnStatistics, kind: pa.DataType, count: int) -> _Bounds:
        return cls(_cast(known.lower, kind, count), _cast(known.upper, kind, count), known.buckets)

    def may(self, operator: Operator, value: pa.Scalar) -> pa.Array:
        """Returns whether the comparison may be true for a value between the bounds."""
        match operator:
            case "==":
                return pc.and_kleene(pc.less_equal(self.lower, value), pc.greater_equal(self.upper, value))
            case "!=":
                return pc.or_kleene(pc.not_equal(self.lower, value), pc.not_equal(self.upper, value))
            case "<":
                return pc.less(self.lower, value)
            case "<=":
                return pc.less_equal(self.lower, value)
            case ">":
                return pc.greater(self.upper, value)
            case ">=":
                return pc.greater_equal(self.upper, value)


def _cast(bounds: pa.Array | None, kind: pa.DataType, count: int) -> pa.Array:
    """Returns the bounds in the type that values are compared in. NaN is no bound."""
    target = comparable_type(kind)
    if bounds is None:
        return pa.nulls(count, target)
    if isinstance(bounds, pa.ExtensionArray):
        bounds = bounds.storage
    try:
        found = bounds.cast(target)
    except pa.ArrowException:
        return pa.nulls(count, target)
    return pc.if_else(pc.is_nan(found), pa.scalar(None, target), found) if is_floating(target) else found


def _within(leaf: Leaf, bounds: _Bounds, kind: pa.DataType, negated: bool) -> pa.Array | bool:
    """Returns whether the leaf may be true for values within the bounds, or false if `negated`."""
    match leaf:
        case Comparison(_, operator, value):
            fitted = fit(operator, value, kind)
            if isinstance(fitted, bool):
                return fitted != negated
            wanted = _OPPOSITE[fitted.operator] if negated else fitted.operator
            if is_floating(kind) and (negated or wanted == "!=") and wanted != "==":
                # NaN is not within the bounds, and no comparison with it but this one is true.
                return True
            found = bounds.may(wanted, fitted.value)
            return _and(found, _in_buckets(bounds, [fitted.value])) if wanted == "==" else found
        case In(_, values):
            return _within_set(fit_all(values, kind), bounds, kind, negated)
        case StartsWith(_, prefix):
            return _starts(prefix, bounds, negated)
    return True


def _within_set(values: pa.Array, bounds: _Bounds, kind: pa.DataType, negated: bool) -> pa.Array | bool:
    if negated:
        if is_floating(kind):
            return True
        single = pc.and_kleene(pc.equal(bounds.lower, bounds.upper), pc.is_in(bounds.lower, value_set=values))
        return pc.invert(single)
    if not len(values):
        return False
    if len(values) > MOST_VALUES:
        ordered = values.take(pc.sort_indices(values))
        return pc.and_kleene(bounds.may(">=", ordered[0]), bounds.may("<=", ordered[-1]))
    found = bounds.may("==", values[0])
    for value in values[1:]:
        found = pc.or_kleene(found, bounds.may("==", value))
    return _and(found, _in_buckets(bounds, list(values)))


def _starts(prefix: str, bounds: _Bounds, negated: bool) -> pa.Array:
    lower, upper = pc.starts_with(bounds.lower, prefix), pc.starts_with(bounds.upper, prefix)
    if negated:
        return pc.invert(pc.and_kleene(lower, upper))
    first = pa.scalar(prefix, bounds.lower.type)
    # Text from the prefix on starts with it until the first that is greater and does not.
    return pc.and_kleene(bounds.may(">=", first), pc.or_kleene(lower, bounds.may("<=", first)))


def _in_buckets(bounds: _Bounds, values: list[pa.Scalar]) -> pa.Array | bool:
    return True if bounds.buckets is None else bounds.buckets.may_have(values)


def _and(found: pa.Array, other: pa.Array | bool) -> pa.Array | bool:
    return (found if other else False) if isinstance(other, bool) else pc.and_kleene(found, other)
