"""Tests that Arrow expressions which are taken apart and put together again are the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.scan.arrow_tree import Call, Field, Literal, Node, columns_of, tree_of

_VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=8),
    st.booleans(),
    st.floats(allow_nan=False),
    st.binary(max_size=8),
    st.dates(),
    st.just(Decimal("1.50")),
)
_FIELDS = st.lists(st.text("aé.\n'\"\\", min_size=1, max_size=4), min_size=1, max_size=3)
_COMPARISONS: Any = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}


def leaves() -> st.SearchStrategy[tuple[pc.Expression, set[str]]]:
    def compared(path: list[str], name: str, value: Any) -> tuple[pc.Expression, set[str]]:
        return _COMPARISONS[name](pc.field(*path), value), {path[0]}

    return st.one_of(
        st.builds(compared, _FIELDS, st.sampled_from(list(_COMPARISONS)), _VALUES),
        _FIELDS.map(lambda path: (pc.field(*path).is_null(), {path[0]})),
        st.builds(
            lambda path, values: (pc.field(*path).isin(values), {path[0]}), _FIELDS, st.lists(st.integers(0, 9))
        ),
    )


def expressions() -> st.SearchStrategy[tuple[pc.Expression, set[str]]]:
    return st.recursive(
        leaves(),
        lambda inner: (
            st.builds(lambda a, b: (a[0] & b[0], a[1] | b[1]), inner, inner)
            | st.builds(lambda a, b: (a[0] | b[0], a[1] | b[1]), inner, inner)
            | inner.map(lambda a: (~a[0], a[1]))
        ),
        max_leaves=8,
    )


def rebuilt(node: Node) -> pc.Expression:
    match node:
        case Field(path):
            return pc.field(*path)
        case Literal(value):
            return pc.scalar(value)
        case Call("and_kleene", (left, right)):
            return rebuilt(left) & rebuilt(right)
        case Call("or_kleene", (left, right)):
            return rebuilt(left) | rebuilt(right)
        case Call("invert", (one,)):
            return ~rebuilt(one)
        case Call("is_null", (one,), _):
            return rebuilt(one).is_null()
        case Call("is_in", (one,), options):
            assert options is not None
            return rebuilt(one).isin(options["value_set"].values)
        case Call(name, (left, right)):
            rebuilt_call: pc.Expression = _COMPARISONS[name](rebuilt(left), rebuilt(right))
            return rebuilt_call
    raise AssertionError(node)


@given(expressions())
def test_a_tree_says_all_of_the_expression(given_: tuple[pc.Expression, set[str]]) -> None:
    expression, columns = given_
    tree = tree_of(expression)
    assert rebuilt(tree).equals(expression)
    assert columns_of(tree) == columns


def test_what_is_not_a_column_by_name_is_refused() -> None:
    with pytest.raises((ValueError, pa.ArrowException)):
        tree_of(pc.field(0) == 1)
