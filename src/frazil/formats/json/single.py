"""One JSON text at a time, in Python: for the few that Arrow refuses, and to say why.

What this takes, and what it makes of it, is the rule; Arrow's parser does the same for many at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.types as types

from frazil.formats.json.leaves import Misfit, fitting_leaf, grown_leaf, leaf, shown
from frazil.formats.json.naming import Names
from frazil.log.schema.columns import MOST_LEVELS, count_columns
from frazil.log.schema.paths import below


def load(text: bytes) -> Any:
    """Numbers with a fraction or an exponent are `Decimal`; of a key that comes twice the last one counts."""
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
        # Its exponent is beyond all measure: it is infinite, or nothing.
        return Decimal(float(text))


def _no_constant(name: str) -> NoReturn:
    raise Misfit(f"not JSON, which has no {name}")


class _List(NamedTuple):
    item: Tree


class _Map(NamedTuple):
    key: pa.DataType
    item: Tree


Tree: TypeAlias = "dict[str, Tree] | _List | _Map | pa.DataType"
"""A type that is quick to look into: structs are dictionaries."""
NOTHING = pa.null()
"""The type of what has only been null; there is but this one object."""


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


class _Spot(NamedTuple):
    """Where a value is."""

    path: str
    """For people."""
    column: str
    """As tables name it."""
    level: int

    def field(self, name: str) -> _Spot:
        return _Spot(below(self.path, name), below(self.column, name), self.level + 1)

    def item(self, index: int) -> _Spot:
        return _Spot(f"{self.path}[{index}]", below(self.column, "element"), self.level + 1)

    def entry(self, key: str) -> _Spot:
        return _Spot(below(self.path, key), below(self.column, "value"), self.level + 1)


class Learner:
    """The type that holds all values so far, which grows with each.

    What is in `fixed` never changes: a value that does not fit it is a misfit. Elsewhere fields are added as they
    come, and integers become doubles when a double comes.
    """

    def __init__(self, fixed: pa.DataType, learnt: pa.DataType, most_columns: int, *, trusting: bool) -> None:
        """If it is `trusting`, dates and the like are taken for ones, and are still to be looked at."""
        self._fixed = _tree(fixed)
        self._tree = _tree(learnt)
        self._fits: Callable[[Any], bool] | None = _fitting(self._tree, trusting)
        self._trusting = trusting
        self._most_columns = most_columns
        self._room = most_columns - count_columns(learnt)
        self._names = Names(learnt)

    @property
    def kind(self) -> pa.DataType:
        return _arrow(self._tree)

    def learn(self, value: Any) -> None:
        """An error leaves everything as it was."""
        if self._fits is not None and self._fits(value):
            return
        room = self._room
        try:
            tree = self._grown(self._tree, self._fixed, value, _Spot("", "", 0))
        except Exception:
            self._room = room
            self._names.forget()
            raise
        self._names.keep()
        # Worth its while only when fields no longer come with every value.
        self._fits = _fitting(tree, self._trusting) if tree is self._tree and self._fits is None else self._fits
        if tree is not self._tree:
            self._tree, self._fits = tree, None

    def _grown(self, tree: Tree, fixed: Tree | None, value: Any, spot: _Spot) -> Tree:
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
            leaf(value, tree, spot.path)
            return tree
        return grown_leaf(_arrow(tree), value, spot.path)

    def _grown_map(self, tree: _Map, fixed: Tree | None, value: dict[str, Any], spot: _Spot) -> Tree:
        within = fixed.item if isinstance(fixed, _Map) else None
        item = tree.item
        for key, inner in value.items():
            leaf(key, tree.key, f"{spot.path} keys")
            item = self._grown(item, within, inner, spot.entry(key))
        return tree if item is tree.item else _Map(tree.key, item)

    def _grown_list(self, tree: Tree, fixed: Tree | None, value: list[Any], spot: _Spot) -> Tree:
        within = fixed.item if isinstance(fixed, _List) else None
        before = tree.item if isinstance(tree, _List) else NOTHING
        if tree is NOTHING:
            self._names.add(below(spot.column, "element"), "element")
        item = before
        for index, inner in enumerate(value):
            item = self._grown(item, within, inner, spot.item(index))
        return tree if item is before and isinstance(tree, _List) else _List(item)

    def _grown_struct(self, tree: Tree, fixed: Tree | None, value: dict[str, Any], spot: _Spot) -> Tree:
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

    def _check_new(self, added: list[str], spot: _Spot) -> None:
        self._room -= len(added)
        if self._room < 0:
            raise Misfit(
                f"field {shown(below(spot.path, added[-1]))} is new, and there would be more than "
                f"{self._most_columns} columns (`log.max_columns`); if names are data here, give the column the type "
                f"map<string, …>"
            )
        for name in added:
            self._names.add(below(spot.column, name), name)


def taking(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes of a value that has been learnt what Arrow takes for the stand-in of `kind`."""
    if types.is_struct(kind):
        inner = [(field.name, taking(field.type)) for field in kind.fields]
        return lambda value: None if value is None else {name: take(value.get(name)) for name, take in inner}
    if types.is_map(kind):
        item = taking(kind.item_type)
        return lambda value: None if value is None else [(key, item(each)) for key, each in value.items()]
    if types.is_list(kind):
        item = taking(kind.value_type)
        return lambda value: None if value is None else [item(each) for each in value]
    if types.is_floating(kind):
        return lambda value: None if value is None else float(value)
    if types.is_decimal(kind):
        return lambda value: None if value is None else leaf(value, kind, "")
    return (lambda _: None) if types.is_null(kind) else lambda value: value


def _fitting(tree: Tree, trusting: bool) -> Callable[[Any], bool]:
    """What tells quickly that a value has nothing that is new or does not fit; also false when in doubt."""
    if isinstance(tree, dict):
        inner = {name: _fitting(below, trusting) for name, below in tree.items()}

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
        key, item = _fitting(tree.key, trusting), _fitting(tree.item, trusting)
        return lambda value: (
            value is None or (type(value) is dict and all(map(key, value)) and all(map(item, value.values())))
        )
    if isinstance(tree, _List):
        item = _fitting(tree.item, trusting)
        return lambda value: value is None or (type(value) is list and all(map(item, value)))
    return fitting_leaf(tree, trusting)
