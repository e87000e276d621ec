"""Holds values of any type as arrays: one for each row, or one for each distinct value and a code for each row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.parse.names import KINDS, STATUSES, Type
from frazil.query.traceql.parse.tree import Static

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Kinds: TypeAlias = npt.NDArray[np.uint8]


class Kind(IntEnum):
    """Is the type of one value."""

    NIL = 0
    INT = 1
    DURATION = 2
    FLOAT = 3
    STRING = 4
    BOOLEAN = 5
    STATUS = 6
    KIND = 7
    ARRAY = 8
    """A list of values of one type, as JSON."""


_KIND_OF = {
    Type.NIL: Kind.NIL,
    Type.INT: Kind.INT,
    Type.DURATION: Kind.DURATION,
    Type.FLOAT: Kind.FLOAT,
    Type.STRING: Kind.STRING,
    Type.BOOLEAN: Kind.BOOLEAN,
    Type.STATUS: Kind.STATUS,
    Type.KIND: Kind.KIND,
}


@dataclass(frozen=True)
class Values:
    """Has a kind for each value; which array has the value itself depends on the kind."""

    kinds: Kinds
    ints: Ints
    """Integers, durations, booleans, and the codes of status and kind."""
    floats: Floats
    texts: pa.Array
    """Texts, and arrays as JSON."""

    def __len__(self) -> int:
        return len(self.kinds)

    @classmethod
    def of_ints(cls, numbers: npt.NDArray[Any], kind: Kind, known: Bools | None = None) -> Values:
        count = len(numbers)
        kinds = np.full(count, kind, np.uint8)
        if known is not None:
            kinds[~known] = Kind.NIL
        return cls(kinds, numbers.astype(np.int64), np.zeros(count), pa.nulls(count, pa.string()))

    @classmethod
    def of_floats(cls, numbers: Floats, known: Bools) -> Values:
        kinds = np.where(known, np.uint8(Kind.FLOAT), np.uint8(Kind.NIL))
        return cls(kinds, np.zeros(len(numbers), np.int64), numbers, pa.nulls(len(numbers), pa.string()))

    @classmethod
    def of_texts(cls, texts: pa.Array) -> Values:
        """Null is nil."""
        kinds = np.full(len(texts), Kind.STRING, np.uint8)
        if texts.null_count:
            kinds[np.asarray(texts.is_null())] = Kind.NIL
        return cls(kinds, np.zeros(len(texts), np.int64), np.zeros(len(texts)), texts)

    @classmethod
    def of_static(cls, static: Static) -> Values:
        kind, value = _KIND_OF[static.type], static.value
        number = 0
        match static.type:
            case Type.STATUS:
                number = STATUSES.index(cast(str, value))
            case Type.KIND:
                number = KINDS.index(cast(str, value))
            case Type.INT | Type.DURATION | Type.BOOLEAN:
                number = int(cast(int, value))
        return cls(
            np.array([kind], np.uint8),
            np.array([number], np.int64),
            np.array([value if isinstance(value, float) else 0.0]),
            pa.array([value if isinstance(value, str) else None], pa.string()),
        )

    def take(self, places: npt.NDArray[Any]) -> Values:
        """Takes the values at these places; those at -1 are nil."""
        if len(self) == 0:
            return nils(len(places))
        kinds = self.kinds[places]
        kinds[places < 0] = Kind.NIL
        texts = self.texts
        if texts.null_count == len(texts):
            taken = pa.nulls(len(places), pa.string())
        else:
            taken = texts.take(pa.array(places, mask=places < 0))
        return Values(kinds, self.ints[places], self.floats[places], taken)

    @cached_property
    def whole(self) -> Bools:
        """Tells where a value is a number without a fraction."""
        found: Bools = (self.kinds == Kind.INT) | (self.kinds == Kind.DURATION)
        return found

    @cached_property
    def numbers(self) -> Floats:
        """Returns all numbers as floats; only those that `numeric` tells mean something."""
        return np.where(self.kinds == Kind.FLOAT, self.floats, self.ints)

    @cached_property
    def numeric(self) -> Bools:
        found: Bools = self.whole | (self.kinds == Kind.FLOAT)
        return found

    def static(self, place: int) -> Static:
        """Returns one value as a literal; an array is returned as nil."""
        number = int(self.ints[place])
        match Kind(int(self.kinds[place])):
            case Kind.INT:
                return Static(Type.INT, number)
            case Kind.DURATION:
                return Static(Type.DURATION, number)
            case Kind.FLOAT:
                return Static(Type.FLOAT, float(self.floats[place]))
            case Kind.STRING:
                return Static(Type.STRING, self.texts[place].as_py())
            case Kind.BOOLEAN:
                return Static(Type.BOOLEAN, bool(number))
            case Kind.STATUS:
                return Static(Type.STATUS, STATUSES[number])
            case Kind.KIND:
                return Static(Type.KIND, KINDS[number])
        return Static(Type.NIL, None)


def nils(count: int) -> Values:
    return Values.of_ints(np.zeros(count, np.int64), Kind.NIL)


def joined(parts: list[Values]) -> Values:
    return Values(
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.ints for part in parts]),
        np.concatenate([part.floats for part in parts]),
        pa.concat_arrays([part.texts for part in parts]),
    )


@dataclass(frozen=True)
class Column:
    """Has a value for each row: the one with the row's code, or the one at the row's place if there are no codes."""

    values: Values
    codes: Ints | None = None
    """Where -1 stands for nil."""

    def __len__(self) -> int:
        return len(self.values) if self.codes is None else len(self.codes)

    @classmethod
    def of_dictionary(cls, texts: pa.Array) -> Column:
        """Makes a column of texts that may be dictionary-encoded."""
        encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        indices = encoded.indices
        codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy().astype(np.int64)
        return cls(Values.of_texts(encoded.dictionary.cast(pa.string())), codes)

    def spread(self, of_values: npt.NDArray[Any], nil: Any) -> npt.NDArray[Any]:
        """Turns what was found for each distinct value into what is so for each row."""
        if self.codes is None:
            return of_values
        return np.append(of_values, np.array([nil], of_values.dtype))[self.codes]

    @property
    def known(self) -> Bools:
        """Tells which rows have a value."""
        found: Bools = self.spread(self.values.kinds != Kind.NIL, False)
        return found

    def expanded(self) -> Values:
        return self.values if self.codes is None else self.values.take(self.codes)

    def take(self, rows: npt.NDArray[Any]) -> Column:
        """Takes rows; those at -1 are nil."""
        if self.codes is None:
            return Column(self.values, rows.astype(np.int64))
        if not len(self.codes):
            return Column(self.values, np.full(len(rows), -1, np.int64))
        return Column(self.values, np.where(rows >= 0, self.codes[rows], -1))

    def or_else(self, other: Column) -> Column:
        """Takes the other's value where this one is nil."""
        mine, own = self._coded()
        theirs, others = other._coded()
        known = self.known
        if known.all():
            return self
        codes = np.where(known, own, np.where(others >= 0, others + len(mine), -1))
        return Column(joined([mine, theirs]), codes)

    def distinct(self) -> tuple[Ints, list[Static]]:
        """Returns codes, of which equal values have the same, and the value of each code. Nil is a value."""
        if self.codes is None:
            return _distinct(self.values)
        used, codes = np.unique(self.codes, return_inverse=True)
        inner, statics = _distinct(self.values.take(used))
        return inner[codes], statics

    def _coded(self) -> tuple[Values, Ints]:
        return self.values, np.arange(len(self.values)) if self.codes is None else self.codes


def _distinct(values: Values) -> tuple[Ints, list[Static]]:
    keys = np.zeros(len(values), [("kind", np.uint8), ("bits", np.int64)])
    texts = values.texts.dictionary_encode().indices.fill_null(-1).to_numpy()
    keys["kind"] = np.where(values.kinds == Kind.ARRAY, Kind.NIL, values.kinds)
    keys["bits"] = np.select(
        [values.kinds == Kind.STRING, values.kinds == Kind.FLOAT, keys["kind"] == Kind.NIL],
        [texts, values.floats.view(np.int64), np.int64(0)],
        values.ints,
    )
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return codes.astype(np.int64), [values.static(place) for place in first.tolist()]


def matching_texts(values: Values, found: pa.Array) -> Bools:
    """Turns what Arrow found about texts into an array; values of other kinds are false."""
    filled = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    result: Bools = filled & (values.kinds == Kind.STRING)
    return result
