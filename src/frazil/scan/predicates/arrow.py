"""Applies a predicate to rows in Arrow.

`mask` is for rows in memory: it looks at the distinct values of a column that is a dictionary, at the keys of a map
instead of at its rows, and at rows that earlier conditions left. `to_arrow` is for readers that take an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_dictionary, is_null

from frazil.errors import CallError
from frazil.ops.short_texts import remember_short
from frazil.scan.predicates.fitting import comparable_type, fit, fit_all
from frazil.scan.predicates.printing import to_text
from frazil.scan.predicates.simplify import negate_leaves
from frazil.scan.predicates.terms import columns_of, is_text, path_of, value_type
from frazil.scan.predicates.tree import (
    And,
    Comparison,
    Contains,
    In,
    IsNull,
    MapValue,
    Matches,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Term,
)

Leaf: TypeAlias = Comparison | In | IsNull | StartsWith | Contains | Matches
Operand: TypeAlias = Any
"""Is an array, or an expression for one: Arrow's functions take both."""

FEW = 4
"""If at most one of so many rows is left, the other conditions look at copies of these rows only."""

_COMPARE: dict[Operator, Callable[[Operand, Operand], Operand]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_UNKNOWN = pa.scalar(None, pa.bool_())


def to_arrow(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Returns the predicate as an expression on rows of this schema, true, false and null for the same rows.

    Raises `CallError` if it makes no sense for them: a column is not there, or cannot be compared with the value.
    """
    match predicate:
        case Not(child):
            return ~to_arrow(child, schema)
        case And(children):
            return _joined(children, schema, pc.and_kleene, True)
        case Or(children):
            return _joined(children, schema, pc.or_kleene, False)
    path, kind = path_of(predicate.term, schema)
    operand = pc.field(*path)
    if isinstance(predicate.term, MapValue):
        # Arrow looks up plain keys only. A map with keys and values of plain types is cast to itself.
        operand = operand.cast(pa.map_(pa.string(), value_type(kind)))
        operand = pc.map_lookup(operand, pa.scalar(predicate.term.key), "first")
    elif is_dictionary(kind):
        operand = operand.cast(kind.value_type)
    return _evaluated(predicate, operand, value_type(kind))


def mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Returns which rows of the batch are wanted: true where the predicate is true, else false.

    Raises `CallError` like `to_arrow`.
    """
    match negate_leaves(predicate):
        case And() | Or() as found:
            return pa.array(_wanted(found, batch))
        case Not(child):
            assert not isinstance(child, Not | And | Or)
            return _evaluated_leaf(child, batch, negated=True)
        case leaf:
            return _evaluated_leaf(leaf, batch, negated=False)


def check(predicate: Predicate, schema: pa.Schema) -> None:
    """Raises `CallError` if the predicate makes no sense for rows of this schema."""
    to_arrow(predicate, schema)


def _joined(
    children: tuple[Predicate, ...], schema: pa.Schema, join: Callable[[Operand, Operand], Operand], none: bool
) -> pc.Expression:
    if not children:
        return pc.scalar(none)
    found = to_arrow(children[0], schema)
    for child in children[1:]:
        found = join(found, to_arrow(child, schema))
    return found


def _wanted(predicate: Predicate, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    match predicate:
        case And(children):
            return _all(sorted(children, key=_cost), batch)
        case Or(children):
            found = np.zeros(len(batch), np.bool_)
            for child in sorted(children, key=_cost):
                found |= _wanted(child, batch)
            return found
        case Not(child):
            assert not isinstance(child, Not | And | Or)
            return _leaf(child, batch, negated=True)
    return _leaf(predicate, batch, negated=False)


def _all(children: list[Predicate], batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    found = np.ones(len(batch), np.bool_)
    for index, child in enumerate(children):
        if index and len(batch) and np.count_nonzero(found) * FEW <= len(batch):
            # With no row left, the others are still evaluated, to tell those that make no sense.
            rest, rows = children[index:], np.flatnonzero(found)
            few = batch.select(columns_of(And(tuple(rest)), batch.schema.names)).take(pa.array(rows))
            found[rows] = _all(rest, few)
            return found
        found &= _wanted(child, batch)
    return found


def _cost(predicate: Predicate) -> int:
    """Ranks predicates by what they cost for each row."""
    match predicate:
        case Not(child):
            return _cost(child)
        case And(children) | Or(children):
            return max(map(_cost, children), default=0)
        case Contains() | Matches():
            return 3
    return 1 if isinstance(predicate.term, MapValue) else 0


def _leaf(leaf: Leaf, batch: pa.RecordBatch, *, negated: bool) -> npt.NDArray[np.bool_]:
    wanted: npt.NDArray[np.bool_] = _evaluated_leaf(leaf, batch, negated=negated).to_numpy(zero_copy_only=False)
    return wanted


def _evaluated_leaf(leaf: Leaf, batch: pa.RecordBatch, *, negated: bool) -> pa.BooleanArray:
    values = column_values(leaf.term, batch)
    if is_dictionary(values.type) and not is_null(values.type.value_type):
        found = _of_dictionary(leaf, values)
    else:
        found = _evaluated(leaf, values, value_type(values.type))
    if negated:
        found = pc.invert(found)
    return found.fill_null(False) if found.null_count else found


def _of_dictionary(leaf: Leaf, values: pa.DictionaryArray) -> pa.BooleanArray:
    distinct = _evaluated(leaf, values.dictionary, values.type.value_type)
    found = distinct.take(values.indices)
    # A row is null because its index is null, or because the value at its index is.
    return found.fill_null(True) if isinstance(leaf, IsNull) else found


def column_values(term: Term, batch: pa.RecordBatch) -> pa.Array:
    """Returns the values of a term, one for each row."""
    path, _ = path_of(term, batch.schema)
    values = batch.column(path[0])
    for name in path[1:]:
        if is_dictionary(values.type):
            values = values.dictionary_decode()
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return map_values(values, term.key) if isinstance(term, MapValue) else values


def map_values(maps: pa.MapArray, key: str) -> pa.Array:
    """Returns what each map has under the key, the first if it has the key several times, and null if it has not.

    It looks for the key among all keys at once, or for its code if these are a dictionary.
    """
    if is_dictionary(maps.type):
        maps = maps.dictionary_decode()
    offsets = maps.offsets.to_numpy()
    start, end = (int(offsets[0]), int(offsets[-1])) if len(maps) else (0, 0)
    keys = maps.keys.slice(start, end - start)
    if is_dictionary(keys.type):
        codes = pc.indices_nonzero(pc.equal(keys.dictionary, key)).to_numpy()
        indices = keys.indices.to_numpy(zero_copy_only=False)
        at = np.flatnonzero(indices == codes[0] if len(codes) == 1 else np.isin(indices, codes))
    else:
        at = pc.indices_nonzero(pc.equal(keys, key)).to_numpy().astype(np.int64)
    at = at + start
    rows = np.searchsorted(offsets, at, "right") - 1
    # The entries are in the order of the rows, so the first of each row is where the row changes.
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    chosen = np.full(len(maps), -1, np.int64)
    chosen[rows[first]] = at[first]
    absent = chosen < 0
    if maps.null_count:
        # A map that is null may still have entries in the buffers.
        absent |= maps.is_null().to_numpy(zero_copy_only=False)
    return maps.items.take(pa.array(chosen, mask=absent))


def _evaluated(leaf: Leaf, operand: Operand, kind: pa.DataType) -> Operand:
    """Evaluates a leaf for an array, or for an expression for one, of values of this type."""
    try:
        match leaf:
            case IsNull():
                return operand.is_null()
            case Comparison(_, operator, value):
                fitted = fit(operator, value, kind)
                if isinstance(fitted, bool):
                    return _constant(operand, fitted if not is_null(kind) else None)
                return _COMPARE[fitted.operator](_comparable(operand, kind), _literal(operand, fitted.value))
            case In(_, values):
                fitted_values = fit_all(values, kind)
                found = pc.is_in(_comparable(operand, kind), value_set=fitted_values)
                return pc.if_else(operand.is_valid(), found, _literal(operand, _UNKNOWN))
            case _ if not is_text(kind):
                raise ValueError(f"{kind} is not text")
            case StartsWith(_, prefix):
                return pc.starts_with(_comparable(operand, kind), prefix)
            case Contains(_, text, False) if isinstance(operand, pa.Array):
                return _contains(_comparable(operand, kind), text)
            case Contains(_, text, ignore_case):
                return pc.match_substring(_comparable(operand, kind), text, ignore_case=ignore_case)
            case Matches(_, pattern, anchored):
                return pc.match_substring_regex(_comparable(operand, kind), full_pattern(pattern, anchored))
    except (ValueError, pa.ArrowException) as error:
        raise CallError(f"These rows cannot be chosen by {to_text(leaf)}: {error}.") from error


def _contains(texts: pa.Array, text: str) -> pa.BooleanArray:
    """Polars finds text three times as quickly as Arrow does."""
    import polars as pl

    found = pl.Series(texts).str.contains(text, literal=True)
    return found.to_arrow()


def _constant(operand: Operand, value: bool | None) -> Operand:
    """Returns the value for every row that is not null."""
    return pc.if_else(
        operand.is_valid(), _literal(operand, pa.scalar(value, pa.bool_())), _literal(operand, _UNKNOWN)
    )


def _literal(operand: Operand, value: pa.Scalar) -> Operand:
    return pc.scalar(value) if isinstance(operand, pc.Expression) else value


def _comparable(operand: Operand, kind: pa.DataType) -> Operand:
    target = comparable_type(kind)
    if isinstance(operand, pc.Expression):
        return operand if target == kind else operand.cast(target)
    if isinstance(operand, pa.ExtensionArray):
        operand = operand.storage
    return operand if operand.type == target else operand.cast(target)


@remember_short(1024)
def full_pattern(pattern: str, anchored: bool) -> str:
    r"""Returns the regular expression to search for. Raises `ValueError` if RE2 cannot read it.

    A line break at the end is a part of the text, so an anchored pattern ends with `\z` and not with `$`.
    """
    whole = rf"\A(?:{pattern})\z" if anchored else pattern
    try:
        # The pattern itself must be one: what closes and opens a group could hide in the anchored form.
        pc.match_substring_regex(pa.array([""]), pattern)
        pc.match_substring_regex(pa.array([""]), whole)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{pattern!r} is not a regular expression that RE2 can read: {error}") from error
    return whole
