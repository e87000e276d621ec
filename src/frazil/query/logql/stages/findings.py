"""Collects what parsers find in distinct lines, and gives it to the rows."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.ops.short_texts import remember_short
from frazil.query.logql.columns import ABSENT, Codes, Column, Mask, column_of, from_texts
from frazil.query.logql.frame import EXTRACTED, Frame

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")


@remember_short(4096)
def label_name(key: str) -> str:
    """Returns the name of a label for a key in a line."""
    return sanitized(key.strip(), begins=True)


def sanitized(key: str, *, begins: bool) -> str:
    name = _NO_NAME.sub("_", key)
    return f"_{name}" if begins and name[:1].isdecimal() else name


class Wanted:
    """Says which labels of parsers a query will look at."""

    def __init__(self, names: frozenset[str] | None) -> None:
        self.all = names is None
        given = names or frozenset()
        self.names = given | {name.removesuffix(EXTRACTED) for name in given if name.endswith(EXTRACTED)}
        self._given = given

    @property
    def nothing(self) -> bool:
        return not self.all and not self.names

    def __contains__(self, name: str) -> bool:
        return self.all or name in self.names

    def missing(self, frame: Frame) -> Mask:
        """Returns rows in which a parser has not found everything yet."""
        if self.all:
            return np.ones(frame.rows, np.bool_)
        found = np.ones(frame.rows, np.bool_)
        for name in self._given:
            found &= frame.extracted(name)
        return ~found


class Findings:
    """Has the labels and faults of distinct lines. The first value of a label in a line counts."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[int, str]] = {}
        self.faults: dict[int, tuple[str, str | None]] = {}
        self.missing: dict[str, list[int]] = {}
        """Lines that do not have what a label was to be made of; it is empty there."""
        self.missing_replaces = False
        """Whether such an empty label takes the place of what an earlier parser found."""

    def add(self, line: int, name: str, value: str) -> None:
        self._labels.setdefault(name, {}).setdefault(line, value)

    def put(self, line: int, name: str, value: str) -> None:
        """Adds a value that counts more than an earlier one."""
        self._labels.setdefault(name, {})[line] = value

    def miss(self, line: int, name: str) -> None:
        self.missing.setdefault(name, []).append(line)

    def fail(self, line: int, error: str, details: str | None) -> None:
        self.faults[line] = (error, details)

    def columns(self, lines: int) -> dict[str, Column]:
        return {name: _column(found, lines) for name, found in self._labels.items()}


def _column(found: dict[int, str], lines: int) -> Column:
    column = column_of(pa.array(list(found.values()), pa.string()))
    codes = np.full(lines, ABSENT, np.int32)
    codes[np.fromiter(found, np.int64, len(found))] = column.codes
    return Column(codes, column.values)


def spread(column: Column, line_of_row: Codes) -> Column:
    """Returns a column of distinct lines as one of rows; rows whose line is absent have none."""
    codes = np.append(column.codes, ABSENT)[line_of_row]
    return Column(codes.astype(np.int32), column.values)


def distinct_lines(frame: Frame, rows: Mask) -> tuple[Codes, pa.Array]:
    """Returns for each row the number of its line, and these lines. Rows outside the mask have none."""
    chosen = frame.lines if rows.all() else frame.lines.take(pa.array(np.flatnonzero(rows)))
    encoded = chosen.dictionary_encode()
    codes = np.full(frame.rows, ABSENT, np.int32)
    codes[rows] = encoded.indices.to_numpy()
    return codes, encoded.dictionary


def apply(
    frame: Frame,
    wanted: Wanted,
    parse: Callable[[list[str], Findings], None],
    *,
    filled: bool = True,
    always: bool = False,
    done: Mask | None = None,
    replaces: bool = False,
) -> Codes:
    """Parses the lines of all rows that still miss a wanted label, or of all rows if `always`.

    Empty lines are left out if `filled`, and so are rows that are `done`. What is found may take the place of what
    earlier parsers found (`replaces`). Returns for each row the number of its line as `parse` had it.
    """
    rows = np.ones(frame.rows, np.bool_) if always else wanted.missing(frame)
    if done is not None:
        rows &= ~done
    if filled:
        rows &= np.asarray(pc.greater(pc.binary_length(frame.lines), 0))
    line_of_row, lines = distinct_lines(frame, rows)
    findings = Findings()
    parse(lines.to_pylist(), findings)
    for name, column in findings.columns(len(lines)).items():
        if name in wanted:
            frame.extract(name, spread(column, line_of_row), replaces=replaces)
    for name, missed in findings.missing.items():
        if name in wanted:
            frame.add_empty(name, _rows_of(missed, line_of_row, len(lines)), replaces=findings.missing_replaces)
    _mark(frame, findings, line_of_row, len(lines))
    return line_of_row


def _rows_of(numbers: list[int], line_of_row: Codes, lines: int) -> Mask:
    """Returns which rows have one of the lines with these numbers."""
    mask: NDArray[np.bool_] = np.zeros(lines + 1, np.bool_)
    mask[numbers] = True
    return mask[line_of_row]


def _mark(frame: Frame, findings: Findings, line_of_row: Codes, lines: int) -> None:
    by_error: dict[str, list[int]] = {}
    for line, (error, _) in findings.faults.items():
        by_error.setdefault(error, []).append(line)
    for error, failed in by_error.items():
        details: list[str | None] = [None] * lines
        for line in failed:
            details[line] = findings.faults[line][1]
        frame.fail(_rows_of(failed, line_of_row, lines), error, spread(from_texts(details), line_of_row))
