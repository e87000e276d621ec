"""Has columns of labels: distinct texts, and for each row the number of one of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

ABSENT = -1
"""The code of rows that do not have the label."""


@dataclass(frozen=True)
class Column:
    codes: Codes
    values: pa.Array
    """Distinct texts. Not all of them need to occur."""

    @cached_property
    def texts(self) -> list[str]:
        return self.values.to_pylist()  # type: ignore[no-any-return]

    @cached_property
    def present(self) -> Mask:
        return np.not_equal(self.codes, ABSENT)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Rows) -> Column:
        return Column(self.codes[rows], self.values)

    def only(self, mask: Mask) -> Column:
        """Returns the column without the values of rows outside the mask."""
        return Column(np.where(mask, self.codes, ABSENT).astype(np.int32, copy=False), self.values)

    def over(self, other: Column) -> Column:
        """Returns these values, and the other's where these are absent."""
        if not len(other.values):
            return self
        if not len(self.values):
            return other
        shifted = np.where(other.codes == ABSENT, ABSENT, other.codes + len(self.values))
        codes = np.where(self.codes == ABSENT, shifted, self.codes).astype(np.int32)
        return Column(codes, pa.concat_arrays([self.values, other.values]))

    def mapped(self, test: Callable[[pa.Array], pa.Array], absent: bool) -> Mask:
        """Returns for each row what the test says of its value, and `absent` where it has none."""
        if not len(self.values):
            return np.full(len(self.codes), absent)
        told = np.append(np.asarray(test(self.values), dtype=np.bool_), absent)
        return told[self.codes]

    def by_text(self, test: Callable[[str], bool], absent: bool) -> Mask:
        """Does the same with a test of one text at a time. It sees only values that occur."""
        told = np.full(len(self.values) + 1, absent)
        for code in used_codes(self.codes):
            told[code] = test(self.texts[code])
        return told[self.codes]

    def filled(self) -> pa.Array:
        """Returns the text of each row; an absent one is empty."""
        with_empty = pa.concat_arrays([self.values, pa.array([""], self.values.type)])
        return with_empty.take(pa.array(np.where(self.codes == ABSENT, len(self.values), self.codes)))


NO_TEXTS = pa.array([], pa.string())


def empty_column(rows: int) -> Column:
    return Column(np.full(rows, ABSENT, np.int32), NO_TEXTS)


def constant_column(text: str, rows: int) -> Column:
    return Column(np.zeros(rows, np.int32), pa.array([text]))


def column_of(texts: pa.Array) -> Column:
    """Makes a column of an array with the text of each row; null is absent."""
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    codes = pc.fill_null(texts.indices, ABSENT).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return Column(codes, texts.dictionary.cast(pa.string()))


def used_codes(codes: Codes) -> NDArray[np.int32]:
    """Returns the codes that occur, without that of absent rows."""
    return np.asarray(np.flatnonzero(np.bincount(codes + 1)[1:]), np.int32)


def combined(columns: Sequence[Codes], rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns for each row the number of its combination of codes, and for each combination one of its rows."""
    if not columns:
        return np.zeros(rows, np.int64), np.zeros(min(rows, 1), np.int64)
    keys = np.zeros(rows, np.int64)
    size = 1
    for codes in columns:
        width = int(codes.max(initial=ABSENT)) + 2
        if size * width > 2**62:
            _, keys = np.unique(keys, return_inverse=True)
            size = int(keys.max(initial=0)) + 1
        keys = keys * width + (codes + 1)
        size *= width
    if size <= max(4 * rows, 1024):
        return _dense(keys, size)
    _, firsts, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers, firsts


def distinct_codes(codes: Codes) -> tuple[Rows, NDArray[np.intp]]:
    """Does the same for one column, of which it returns the distinct codes."""
    shifted = codes + 1
    used = np.flatnonzero(np.bincount(shifted))
    numbers = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int64)
    numbers[used] = np.arange(len(used))
    return numbers[shifted], used - 1


def _dense(keys: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Does so without sorting, for keys in a small range."""
    firsts_by_key = np.full(size, -1, np.int64)
    firsts_by_key[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    used = np.flatnonzero(firsts_by_key >= 0)
    number_of_key = np.zeros(size, np.int64)
    number_of_key[used] = np.arange(len(used))
    return number_of_key[keys], firsts_by_key[used]


def from_texts(texts: Iterable[str | None]) -> Column:
    return column_of(pa.array(list(texts), pa.string()))
