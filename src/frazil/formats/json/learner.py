"""Reads one JSON text at a time in Python: for the few that Arrow refuses, and to say why.

What this accepts, and what it makes of it, is the rule. Arrow's parser does the same for many texts at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.types as types

from frazil.formats.json.field_names import FieldNames
from frazil.formats.json.scalars import Misfit, convert_scalar, scalar_test, shown, widen_scalar
from frazil.log.schema.columns import MOST_LEVELS, count_columns
from frazil.log.schema.paths import below


def load(text: bytes) -> Any:
    """Parses a text. Numbers with a fraction or an exponent become `Decimal`; if a key comes twice, the last value
    counts."""
    try:
        return json.loads(text.decode(), parse_float=_number, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Misfit(f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}") from None
    except RecursionError:
        raise Misfit("nested too deep") from None
    except ValueError as error:
        raise Misfit(f"not JSON: {error}") from None


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        # The exponent is out of range, so the number is infinite or zero.
        return Decimal(float(text))


def _no_constant(name: str) -> NoReturn:
    raise Misfit(f"not JSON, which has no {name}")


class _List(NamedTuple):
    item: Tree


class _Map(NamedTuple):
    key: pa.DataType
    item: Tree


Tree: TypeAlias = "dict[str, Tree] | _List | _Map | pa.DataType"
"""An Arrow type in a form that is quick to descend into: structs are dictionaries."""
NOTHING = pa.null()
"""The type of values that have only been null. It is compared by identity, so there is only this object."""


def _tree(kind: pa.DataType) -> Tree:
    if types.is_struct(kind):
        return {field.name: _tree(field.type) for field in kind.fields}
    if types.is_list(kind):
        return _List(_tree(kind.value_type))
    if types.is_map(kind):
        return _Map(kind.key_type, _tree(kind.item_type))
    return NOTHING if types.is_null(kind) else kind


def _arrow(tree: Tree) -> pa.DataType:
    if isinstance(tree, dict):
        return pa.struct([(name, _arrow(inner)) for name, inner in tree.items()])
    if isinstance(tree, _List):
        return pa.list_(_arrow(tree.item))
    return pa.map_(tree.key, _arrow(tree.item)) if isinstance(tree, _Map) else tree


class _Location(NamedTuple):
    """The location of a value within a text."""

    path: str
    """The path as error messages show it."""
    column: str
    """The path as tables name it."""
    level: int

    def field(self, name: str) -> _Location:
        return _Location(below(self.path, name), below(self.column, name), self.level + 1)

    def item(self, index: int) -> _Location:
        return _Location(f"{self.path}[{index}]", below(self.column, "element"), self.level + 1)

    def entry(self, key: str) -> _Location:
        return _Location(below(self.path, key), below(self.column, "value"), self.level + 1)


class TypeLearner:
    """Learns the type that holds all values so far.

    The types in `fixed` never change: a value that does not fit them raises `Misfit`. Elsewhere new fields are added,
    and integers become doubles when a double comes.
    """

    def __init__(self, fixed: pa.DataType, learnt: pa.DataType, most_columns: int, *, trusting: bool) -> None:
        """If it is `trusting`, strings are taken for dates and the like where the type wants one, and must be checked
        later."""
        self._fixed = _tree(fixed)
        self._tree = _tree(learnt)
        self._fits: Callable[[Any], bool] | None = _fit_test(self._tree, trusting)
        self._trusting = trusting
        self._most_columns = most_columns
        self._room = most_columns - count_columns(learnt)
        self._names = FieldNames(learnt)

    @property
    def kind(self) -> pa.DataType:
        return _arrow(self._tree)

    def learn(self, value: Any) -> None:
        """Extends the type by a value. An error leaves everything as it was."""
        if self._fits is not None and self._fits(value):
            return
        room = self._room
        try:
            tree = self._grown(self._tree, self._fixed, value, _Location("", "", 0))
        except Exception:
            self._room = room
            self._names.forget()
            raise
        self._names.keep()
        # Building the test pays only once values no longer bring new fields.
        self._fits = _fit_test(tree, self._trusting) if tree is self._tree and self._fits is None else self._fits
        if tree is not self._tree:
            self._tree, self._fits = tree, None

    def _grown(self, tree: Tree, fixed: Tree | None, value: Any, spot: _Location) -> Tree:
        if value is None:
            return tree
        if spot.level > MOST_LEVELS:
            raise Misfit(f"field {shown(spot.path)} is nested more than {MOST_LEVELS} levels deep")
        if isinstance(value, dict) and isinstance(tree, _Map):
            return self._grown_map(tree, fixed, value, spot)
        if isinstance(value, dict) and (isinstance(tree, dict) or tree is NOTHING):
            return self._grown_struct(tree, fixed, value, spot)
        if isinstance(value, list) and (isinstance(tree, _List) or tree is NOTHING):
            return self._grown_list(tree, fixed, value, spot)
        if isinstance(tree, pa.DataType) and fixed is not None:
            convert_scalar(value, tree, spot.path)
            return tree
        return widen_scalar(_arrow(tree), value, spot.path)

    def _grown_map(self, tree: _Map, fixed: Tree | None, value: dict[str, Any], spot: _Location) -> Tree:
        within = fixed.item if isinstance(fixed, _Map) else None
        item = tree.item
        for key, inner in value.items():
            convert_scalar(key, tree.key, f"{spot.path} keys")
            item = self._grown(item, within, inner, spot.entry(key))
        return tree if item is tree.item else _Map(tree.key, item)

    def _grown_list(self, tree: Tree, fixed: Tree | None, value: list[Any], spot: _Location) -> Tree:
        within = fixed.item if isinstance(fixed, _List) else None
        before = tree.item if isinstance(tree, _List) else NOTHING
        if tree is NOTHING:
            self._names.add(below(spot.column, "element"), "element")
        item = before
        for index, inner in enumerate(value):
            item = self._grown(item, within, inner, spot.item(index))
        return tree if item is before and isinstance(tree, _List) else _List(item)

    def _grown_struct(self, tree: Tree, fixed: Tree | None, value: dict[str, Any], spot: _Location) -> Tree:
        old = tree if isinstance(tree, dict) else {}
        within = fixed if isinstance(fixed, dict) else {}
        if added := [name for name in value if name not in old]:
            self._check_new(added, spot)
        new: dict[str, Tree] = {}
        for name, inner in value.items():
            before = old.get(name, NOTHING)
            grown = self._grown(before, within.get(name), inner, spot.field(name))
            if grown is not before or name not in old:
                new[name] = grown
        return {**old, **new} if new or tree is NOTHING else tree

    def _check_new(self, added: list[str], spot: _Location) -> None:
        self._room -= len(added)
        if self._room < 0:
            raise Misfit(
                f"field {shown(below(spot.path, added[-1]))} is new, and there would be more than "
                f"{self._most_columns} columns (`log.max_columns`); if names are data here, give the column the type "
                f"map<string, …>"
            )
        for name in added:
            self._names.add(below(spot.column, name), name)


def arrow_converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Returns a function that converts a value, which has been learnt, to what Arrow takes for the physical type of
    `kind`."""
    if types.is_struct(kind):
        inner = [(field.name, arrow_converter(field.type)) for field in kind.fields]
        return lambda value: None if value is None else {name: take(value.get(name)) for name, take in inner}
    if types.is_map(kind):
        item = arrow_converter(kind.item_type)
        return lambda value: None if value is None else [(key, item(each)) for key, each in value.items()]
    if types.is_list(kind):
        item = arrow_converter(kind.value_type)
        return lambda value: None if value is None else [item(each) for each in value]
    if types.is_floating(kind):
        return lambda value: None if value is None else float(value)
    if types.is_decimal(kind):
        return lambda value: None if value is None else convert_scalar(value, kind, "")
    return (lambda _: None) if types.is_null(kind) else lambda value: value


def _fit_test(tree: Tree, trusting: bool) -> Callable[[Any], bool]:
    """Returns a quick test of whether a value fits the type and brings no new field. The test is false when in
    doubt."""
    if isinstance(tree, dict):
        inner = {name: _fit_test(below, trusting) for name, below in tree.items()}

        def fits_struct(value: Any) -> bool:
            if value is None:
                return True
            if type(value) is not dict:
                return False
            for name, each in value.items():
                fits = inner.get(name)
                if fits is None or not fits(each):
                    return False
            return True

        return fits_struct
    if isinstance(tree, _Map):
        key, item = _fit_test(tree.key, trusting), _fit_test(tree.item, trusting)
        return lambda value: (
            value is None or (type(value) is dict and all(map(key, value)) and all(map(item, value.values())))
        )
    if isinstance(tree, _List):
        item = _fit_test(tree.item, trusting)
        return lambda value: value is None or (type(value) is list and all(map(item, value)))
    return scalar_test(tree, trusting)
