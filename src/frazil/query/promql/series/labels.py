"""Keeps the labels of many series as columns of codes, so that grouping and matching never look at single rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.query.promql.parse.literals import print_label, quote

Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
# Above this, two codes no longer fit beside each other in 64 bits.
WIDEST = 1 << 31


@dataclass(frozen=True)
class Column:
    """Has one label of all series: codes into its values. Code 0 is the empty value: no such label."""

    codes: Codes
    values: Sequence[str]

    def take(self, rows: Rows) -> Column:
        return Column(self.codes[rows], self.values)

    def strings(self) -> list[str]:
        values = self.values
        return [values[code] for code in self.codes.tolist()]

    def ranks(self) -> npt.NDArray[np.int64]:
        """Returns numbers that order the rows as their values do."""
        order = sorted(range(len(self.values)), key=lambda code: self.values[code].encode("utf-8", "surrogateescape"))
        ranks = np.empty(len(self.values), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks[self.codes]


def column_of(strings: Iterable[str]) -> Column:
    """Returns a column of the given values, one for each row."""
    known: dict[str, int] = {"": 0}
    codes = [known.setdefault(text, len(known)) for text in strings]
    return Column(np.array(codes, np.int32), list(known))


@dataclass(frozen=True)
class LabelTable:
    """Is the labels of `size` series. Tables are never changed, only made anew."""

    size: int
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, str]]) -> LabelTable:
        names = {name for row in rows for name, value in row.items() if value}
        return cls(len(rows), {name: column_of(row.get(name, "") for row in rows) for name in sorted(names)})

    def rows(self) -> list[dict[str, str]]:
        """Returns the labels of each series, in the order of their names."""
        found: list[dict[str, str]] = [{} for _ in range(self.size)]
        for name in sorted(self.columns):
            for row, text in zip(found, self.columns[name].strings(), strict=True):
                if text:
                    row[name] = text
        return found

    def row(self, at: int) -> dict[str, str]:
        pairs = ((name, column.values[column.codes[at]]) for name, column in sorted(self.columns.items()))
        return {name: value for name, value in pairs if value}

    def get(self, name: str) -> Column:
        return self.columns.get(name) or Column(np.zeros(self.size, np.int32), [""])

    def take(self, rows: Rows) -> LabelTable:
        return LabelTable(len(rows), {name: column.take(rows) for name, column in self.columns.items()})

    def keep(self, names: Iterable[str]) -> LabelTable:
        return LabelTable(
            self.size, {name: self.columns[name] for name in sorted(set(names)) if name in self.columns}
        )

    def drop(self, names: Iterable[str]) -> LabelTable:
        gone = set(names)
        return LabelTable(self.size, {n: c for n, c in self.columns.items() if n not in gone})

    def drop_where(self, names: Iterable[str], where: npt.NDArray[np.bool_]) -> LabelTable:
        """Drops labels of some of the series."""
        if not where.any():
            return self
        if where.all():
            return self.drop(names)
        columns = dict(self.columns)
        for name in names:
            if name in columns:
                columns[name] = Column(np.where(where, 0, columns[name].codes).astype(np.int32), columns[name].values)
        return LabelTable(self.size, columns)

    def with_column(self, name: str, column: Column) -> LabelTable:
        return LabelTable(self.size, {**self.columns, name: column})

    def keys(self, names: Iterable[str] | None = None) -> npt.NDArray[np.int64]:
        """Returns a number for each series, equal where the named labels (or all) are equal."""
        found = np.zeros(self.size, np.int64)
        width = 1
        for name in sorted(self.columns if names is None else set(names)):
            column = self.columns.get(name)
            if column is None or len(column.values) <= 1:
                continue
            if width * len(column.values) >= WIDEST * WIDEST // 2:
                found = np.unique(found, return_inverse=True)[1].reshape(-1)
                width = self.size
            found = found * len(column.values) + column.codes
            width *= len(column.values)
        return found

    def groups(self, names: Iterable[str] | None = None) -> tuple[Rows, Rows]:
        """Returns the first series of each group, in the order they appear, and the group of each series."""
        keys = self.keys(names)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return first[order], rank[group.reshape(-1)]

    def order(self) -> Rows:
        """Returns the series in the order of their labels: by name and value, pair by pair."""
        later = np.zeros(self.size, bool)
        ranks: list[npt.NDArray[np.int64]] = []
        for name in sorted(self.columns, key=lambda n: n.encode("utf-8", "surrogateescape"), reverse=True):
            column = self.columns[name]
            present = column.codes != 0
            # A series without this label comes after those that have it, unless it has no later label either.
            absent = np.where(later, len(column.values) + 1, 0)
            ranks.append(np.where(present, column.ranks() + 1, absent))
            later |= present
        if not ranks:
            return np.arange(self.size)
        return np.lexsort(ranks)


def concatenate(tables: Sequence[LabelTable]) -> LabelTable:
    """Returns the series of several tables, one after the other."""
    if len(tables) == 1:
        return tables[0]
    size = sum(table.size for table in tables)
    names = sorted({name for table in tables for name in table.columns})
    columns = {}
    for name in names:
        known: dict[str, int] = {"": 0}
        parts = []
        for table in tables:
            column = table.columns.get(name)
            if column is None:
                parts.append(np.zeros(table.size, np.int32))
                continue
            mapping = np.array([known.setdefault(text, len(known)) for text in column.values], np.int32)
            parts.append(mapping[column.codes])
        columns[name] = Column(np.concatenate(parts), list(known))
    return LabelTable(size, columns)


def print_labels(labels: Mapping[str, str]) -> str:
    """Prints labels in braces, as errors show them."""
    return "{" + ", ".join(f"{print_label(name)}={quote(value)}" for name, value in sorted(labels.items())) + "}"
