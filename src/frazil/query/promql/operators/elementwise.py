"""Computes binary operators of floats and histograms, element by element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from frazil.query.promql.evaluation.matrix import Cells, Floats, Mask, empty_cells, filled
from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.histograms.merge import IncompatibleSchemas, add, subtract
from frazil.query.promql.histograms.trim import trim
from frazil.query.promql.parse.tokens import COMPARISONS, TRIMS
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.windows.histograms import MISMATCHED

ARITHMETIC: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
COMPARE: dict[str, Callable[[Floats, Floats], Mask]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


def changes_meaning(op: str) -> bool:
    """Whether the result is another quantity than the left operand, so that its name goes."""
    return op in ARITHMETIC


def scalars(op: str, left: Floats, right: Floats) -> Floats:
    if op in TRIMS:
        raise ExecutionError(f'operator "{op}" not allowed for Scalar operations')
    with np.errstate(all="ignore"):
        if op in COMPARISONS:
            return np.asarray(COMPARE[op](left, right), np.float64)
        return np.asarray(ARITHMETIC[op](left, right), np.float64)


@dataclass
class Note:
    """Is something to say about an element; of each step the last one is said."""

    text: str
    warning: bool = False


@dataclass
class Side:
    """Is one operand: floats and histograms with where they are; shapes may be broadcast."""

    values: Floats
    present: Mask
    cells: Cells | None = None


@dataclass
class Outcome:
    """Is what an operator makes of two operands."""

    values: Floats
    present: Mask
    """Where the operator could be computed and gave a float."""
    cells: Cells | None
    kept: Mask
    """Where a comparison holds; everywhere for other operators."""
    notes: dict[int, list[tuple[int, Note]]] = field(default_factory=dict)
    """By step: the row and what is to be said of it."""

    def note(self, row: int, step: int, note: Note) -> None:
        self.notes.setdefault(step, []).append((row, note))

    def last_notes(self) -> dict[int, Note]:
        """Returns what is said of each step."""
        return {step: max(notes, key=lambda n: n[0])[1] for step, notes in sorted(self.notes.items())}


def incompatible(left: str, op: str, right: str) -> Note:
    return Note(f'incompatible sample types encountered for binary operator "{op}": {left} {op} {right}')


def compute(op: str, left: Side, right: Side) -> Outcome:
    """Computes an operator where both operands have something."""
    shape = np.broadcast_shapes(left.values.shape, right.values.shape)
    both = np.broadcast_to(left.present & right.present, shape)
    kept = np.ones(shape, bool)
    with np.errstate(all="ignore"):
        if op in ARITHMETIC:
            values = np.asarray(ARITHMETIC[op](left.values, right.values), np.float64)
        else:
            values = np.array(np.broadcast_to(left.values, shape))
            if op in COMPARE:
                kept = np.asarray(COMPARE[op](left.values, right.values))
    outcome = Outcome(values, np.array(both), None, kept)
    if op in TRIMS:
        for row, step in np.argwhere(both):
            outcome.note(row, step, incompatible("float", op, "float"))
        outcome.present[:] = False
    if left.cells is not None or right.cells is not None:
        compute_cells(op, left, right, shape, outcome)
    return outcome


def compute_cells(op: str, left: Side, right: Side, shape: tuple[int, ...], outcome: Outcome) -> None:
    """Computes the operator where at least one operand is a histogram."""
    nothing = empty_cells((1, 1))
    left_cells = np.broadcast_to(nothing if left.cells is None else left.cells, shape)
    right_cells = np.broadcast_to(nothing if right.cells is None else right.cells, shape)
    left_present = np.broadcast_to(left.present, shape)
    right_present = np.broadcast_to(right.present, shape)
    left_values, right_values = np.broadcast_to(left.values, shape), np.broadcast_to(right.values, shape)
    left_has, right_has = filled(left_cells), filled(right_cells)
    wanted = (left_has | right_has) & (left_has | left_present) & (right_has | right_present)
    cells = empty_cells(shape)
    kept = np.array(outcome.kept)
    for row, step in np.argwhere(wanted):
        one, other = left_cells[row, step], right_cells[row, step]
        if one is not None and other is not None:
            result, holds, note = both_histograms(op, one, other)
        elif one is not None:
            result, note = histogram_and_float(op, one, float(right_values[row, step]))
            holds = True
        else:
            result, note = float_and_histogram(op, float(left_values[row, step]), other)
            holds = True
        if note is not None:
            outcome.note(int(row), int(step), note)
        cells[row, step] = result
        kept[row, step] = holds
    outcome.cells, outcome.kept = cells, kept


def both_histograms(op: str, left: Histogram, right: Histogram) -> tuple[Histogram | None, bool, Note | None]:
    if op in ("+", "-"):
        word = "addition" if op == "+" else "subtraction"
        try:
            merged = add(left, right) if op == "+" else subtract(left, right)
        except IncompatibleSchemas:
            return None, True, Note(f"incompatible bucket layout encountered for binary operator {op}", True)
        if merged.hint_clash:
            return None, True, Note(f"conflicting counter resets during histogram {word}", True)
        note = Note(f"{MISMATCHED} {word}") if merged.reconciled else None
        return merged.histogram.compact(), True, note
    if op in ("==", "!="):
        return left, left.same(right) == (op == "=="), None
    return None, True, incompatible("histogram", op, "histogram")


def histogram_and_float(op: str, left: Histogram, right: float) -> tuple[Histogram | None, Note | None]:
    if op == "*":
        return left.times(right).compact(), None
    if op == "/":
        return left.divided(right).compact(), None
    if op in TRIMS:
        return trim(left, right, op == "</"), None
    return None, incompatible("histogram", op, "float")


def float_and_histogram(op: str, left: float, right: Histogram) -> tuple[Histogram | None, Note | None]:
    if op == "*":
        return right.times(left).compact(), None
    return None, incompatible("float", op, "histogram")
