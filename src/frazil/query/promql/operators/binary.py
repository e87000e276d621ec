"""Evaluates binary operators between vectors and scalars, and finds which elements belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation
from frazil.query.promql.evaluation.matrix import (
    RESERVED,
    Floats,
    Mask,
    Matrix,
    empty_matrix,
    filled,
    merge_same,
    only,
    stack,
)
from frazil.query.promql.operators.elementwise import Note, Outcome, Side, changes_meaning, compute
from frazil.query.promql.parse.tokens import COMPARISONS
from frazil.query.promql.parse.tree import METRIC_NAME, Binary, Matching
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import LabelTable, Rows, concatenate, print_labels


def joined(evaluation: Evaluation, matrix: Matrix) -> Matrix:
    """Joins series that are the same. A single step keeps them until the end, if names go late."""
    if evaluation.options.delayed_names and matrix.steps == 1:
        return matrix
    return merge_same(matrix)


def annotate(evaluation: Evaluation, node: Binary, notes: dict[int, Note]) -> None:
    for note in notes.values():
        (evaluation.warn if note.warning else evaluation.info)(note.text, node)


def vector_scalar(evaluation: Evaluation, node: Binary, vector: Matrix, scalar: Floats, swapped: bool) -> Matrix:
    """Applies an operator to each element and a scalar; a comparison keeps the element, wherever it stands."""
    element = Side(vector.values, vector.present, vector.cells)
    constant = Side(scalar[None, :], np.ones((1, len(scalar)), bool))
    outcome = compute(node.op, constant, element) if swapped else compute(node.op, element, constant)
    values, present, cells = outcome.values, outcome.present, outcome.cells
    if node.op in COMPARISONS:
        if node.bool_modifier:
            values, present, cells = as_bools(outcome)
        else:
            values, present = vector.values, present & outcome.kept
    annotate(evaluation, node, outcome.last_notes())
    found = Matrix(vector.labels, values, present, cells, vector.dropped)
    if changes_meaning(node.op) or node.bool_modifier:
        if evaluation.options.delayed_names:
            found = replace(found, dropped=np.ones(found.size, bool))
        else:
            found = found.with_labels(found.labels.drop(RESERVED))
    return joined(evaluation, found.without_empty())


def as_bools(outcome: Outcome) -> tuple[Floats, Mask, None]:
    """Returns 1 or 0 for every element that could be compared."""
    mask = outcome.present
    if outcome.cells is not None:
        mask = mask | filled(outcome.cells)
    return outcome.kept.astype(np.float64), mask, None


def signatures(left: Matrix, right: Matrix, matching: Matching) -> tuple[Rows, Rows, int]:
    """Returns a number for each element of both vectors, equal for those that belong together."""
    table = concatenate([match_labels(left.labels, matching), match_labels(right.labels, matching)])
    unique, inverse = np.unique(table.keys(), return_inverse=True)
    inverse = inverse.reshape(-1)
    return inverse[: left.size], inverse[left.size :], len(unique)


def match_labels(labels: LabelTable, matching: Matching) -> LabelTable:
    return labels.keep(matching.labels) if matching.on else labels.drop([METRIC_NAME, *matching.labels])


def counts(signature: Rows, mask: Mask, size: int) -> np.typing.NDArray[np.int32]:
    """Counts for each signature and step how many elements are there."""
    found = np.zeros((size, mask.shape[1]), np.int32)
    if len(np.unique(signature)) == len(signature):
        found[signature] = mask
    else:
        np.add.at(found, signature, mask)
    return found


def set_operation(evaluation: Evaluation, node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Evaluates `and`, `or` and `unless`."""
    assert node.matching is not None
    sig_left, sig_right, size = signatures(left, right, node.matching)
    if node.op == "or":
        known = counts(sig_left, left.mask, size) > 0
        rest = right.where(~known[sig_right]) if right.size else right
        return joined(evaluation, stack([left, rest], left.steps))
    known = counts(sig_right, right.mask, size) > 0
    matched = known[sig_left] if size else np.zeros(left.mask.shape, bool)
    return left.where(matched if node.op == "and" else ~matched)


@dataclass
class Pairs:
    """Has the pairs of elements that may meet: rows of the many and of the one side; -1 stands for a fill value."""

    many: Rows
    one: Rows
    signature: Rows
    mask: Mask
    """At which steps both elements of a pair are there."""


def vector_vector(evaluation: Evaluation, node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Evaluates an operator between two vectors, one to one or many to one."""
    matching = node.matching
    assert matching is not None
    flipped = matching.cardinality == "one-to-many"
    many, one = (right, left) if flipped else (left, right)
    # `fill_right` stands for what the one side lacks, whichever side that is.
    fill_many, fill_one = matching.fill_left, matching.fill_right
    sig_many, sig_one, size = signatures(many, one, matching)
    active: Mask = np.asarray(many.mask.any(axis=0) & one.mask.any(axis=0))
    if fill_many is not None or fill_one is not None:
        active = np.asarray(many.mask.any(axis=0) | one.mask.any(axis=0))
    check_one_side(one, sig_one, size, matching, active, "left" if flipped else "right")
    pairs = pair_up(many, one, sig_many, sig_one, size, fill_one)
    found = [operate(evaluation, node, many, one, pairs, (fill_many, fill_one))]
    if fill_many is not None:
        # What could not be computed is no match: the element stands alone.
        matched = counts(pairs.signature, found[0].mask_computed, size) > 0
        alone = one.mask & ~matched[sig_one]
        left_over = np.flatnonzero(alone.any(axis=1))
        nothing = np.full(len(left_over), -1)
        rest = Pairs(nothing, left_over, sig_one[left_over], alone[left_over])
        found.append(operate(evaluation, node, many, one, rest, (fill_many, fill_one)))
    annotate(evaluation, node, {step: note for part in found for step, note in part.notes.items()})
    check_matches(found, matching)
    result = stack([part.matrix for part in found], left.steps)
    return joined(evaluation, result.without_empty())


@dataclass
class Operated:
    """Is what an operator makes of pairs; before a comparison filters them, that is what counts as a match."""

    matrix: Matrix
    signature: Rows
    mask_computed: Mask
    notes: dict[int, Note]


def operate(
    evaluation: Evaluation,
    node: Binary,
    many: Matrix,
    one: Matrix,
    pairs: Pairs,
    fills: tuple[float | None, float | None],
) -> Operated:
    """Computes an operator for pairs of elements."""
    matching = node.matching
    assert matching is not None
    if not len(pairs.many):
        return Operated(empty_matrix(many.steps), pairs.signature, pairs.mask, {})
    many_side, one_side = side_of(many, pairs.many, fills[0]), side_of(one, pairs.one, fills[1])
    many_side.present = many_side.present & pairs.mask
    if many_side.cells is not None:
        many_side.cells = only(many_side.cells, pairs.mask)
    flipped = matching.cardinality == "one-to-many"
    outcome = compute(node.op, one_side, many_side) if flipped else compute(node.op, many_side, one_side)
    labels = result_labels(evaluation, node, matching, many, one, pairs)
    values, present, cells = outcome.values, outcome.present, outcome.cells
    computed = present if cells is None else present | filled(cells)
    dropped = None
    if node.op in COMPARISONS:
        if node.bool_modifier:
            values, present, cells = as_bools(outcome)
            dropped = np.ones(labels.size, bool) if evaluation.options.delayed_names else None
        else:
            present = present & outcome.kept
            cells = None if cells is None else only(cells, outcome.kept)
    result = Matrix(labels, values, present, cells, dropped)
    return Operated(result, pairs.signature, computed, outcome.last_notes())


def side_of(matrix: Matrix, rows: Rows, fill: float | None) -> Side:
    if not matrix.size:
        shape = (len(rows), matrix.steps)
        return Side(np.full(shape, fill, np.float64), np.ones(shape, bool))
    whole = len(rows) == matrix.size and (rows == np.arange(matrix.size)).all()
    values = matrix.values if whole else matrix.values[rows]
    present = matrix.present if whole else matrix.present[rows]
    cells = matrix.cells if whole or matrix.cells is None else matrix.cells[rows]
    filling = rows < 0
    if filling.any():
        values, present = values.copy(), present.copy()
        values[filling], present[filling] = fill, True
        if cells is not None:
            cells = cells.copy()
            cells[filling] = None
    return Side(values, present, cells)


def check_one_side(one: Matrix, signature: Rows, size: int, matching: Matching, active: Mask, side: str) -> None:
    """Raises an error if the one side has two elements of a signature at a step."""
    if len(np.unique(signature)) == len(signature):
        return
    twice = (counts(signature, one.mask, size) > 1) & active
    if not twice.any():
        return
    step = int(np.flatnonzero(twice.any(axis=0))[0])
    candidates = np.flatnonzero(one.mask[:, step])
    seen: dict[int, int] = {}
    for row in candidates.tolist():
        sign = int(signature[row])
        if sign in seen:
            shown = sorted(print_labels(one.labels.row(at)) for at in (row, seen[sign]))
            group = print_labels(match_labels(one.labels, matching).row(row))
            raise ExecutionError(
                f"found duplicate series for the match group {group} on the {side} hand-side of the operation: "
                f"[{shown[0]}, {shown[1]}];many-to-many matching not allowed: matching labels must be unique on one "
                "side"
            )
        seen[sign] = row


def pair_up(
    many: Matrix,
    one: Matrix,
    sig_many: Rows,
    sig_one: Rows,
    size: int,
    fill_one: float | None,
) -> Pairs:
    """Returns all pairs that meet at any step, and those with a fill value for the one side."""
    order = np.argsort(sig_one, kind="stable")
    ordered = sig_one[order]
    begin, end = np.searchsorted(ordered, sig_many, "left"), np.searchsorted(ordered, sig_many, "right")
    number = end - begin
    rows = np.repeat(np.arange(many.size), number)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
    partners = order[np.repeat(begin, number) + within] if len(rows) else np.empty(0, np.int64)
    mask = many.mask[rows] & one.mask[partners]
    parts = [(rows, partners, sig_many[rows], mask)]
    if fill_one is not None:
        alone = many.mask & ~(counts(sig_one, one.mask, size) > 0)[sig_many]
        left = np.flatnonzero(alone.any(axis=1))
        parts.append((left, np.full(len(left), -1), sig_many[left], alone[left]))
    pairs = Pairs(*(np.concatenate([part[i] for part in parts]) for i in range(4)))
    used = pairs.mask.any(axis=1)
    if used.all():
        return pairs
    return Pairs(pairs.many[used], pairs.one[used], pairs.signature[used], pairs.mask[used])


def result_labels(
    evaluation: Evaluation, node: Binary, matching: Matching, many: Matrix, one: Matrix, pairs: Pairs
) -> LabelTable:
    """Returns the labels of each pair: those of the many side, changed as the matching says."""
    matched_many, matched_one = match_labels(many.labels, matching), match_labels(one.labels, matching)
    labels = rows_or_other(many.labels, pairs.many, matched_one, pairs.one)
    if changes_meaning(node.op) or (node.bool_modifier and not evaluation.options.delayed_names):
        labels = labels.drop(RESERVED)
    if matching.cardinality == "one-to-one":
        labels = labels.keep(matching.labels) if matching.on else labels.drop(matching.labels)
    if matching.include:
        source = rows_or_other(one.labels, pairs.one, matched_many, pairs.many)
        for name in matching.include:
            labels = labels.with_column(name, source.get(name))
    return labels


def rows_or_other(labels: LabelTable, rows: Rows, other: LabelTable, other_rows: Rows) -> LabelTable:
    """Returns some rows of a table; where there is none (-1), a row of another table."""
    missing = rows < 0
    if not missing.any():
        return labels.take(rows)
    both = concatenate([labels, other])
    return both.take(np.where(missing, labels.size + other_rows, rows))


def check_matches(found: list[Operated], matching: Matching) -> None:
    """Raises an error if two pairs of a step would be one element of the result."""
    parts = [part for part in found if part.matrix.size]
    if not parts:
        return
    keys = np.concatenate([part.signature for part in parts])
    if matching.cardinality == "one-to-one":
        message = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
    else:
        labels = concatenate([part.matrix.labels for part in parts])
        _, keys = np.unique(np.stack([keys, labels.keys()]), axis=1, return_inverse=True)
        keys = keys.reshape(-1)
        message = "multiple matches for labels: grouping labels must ensure unique matches"
    if len(np.unique(keys)) == len(keys):
        return
    _, dense = np.unique(keys, return_inverse=True)
    computed = np.concatenate([part.mask_computed for part in parts])
    if (counts(dense.reshape(-1), computed, int(dense.max()) + 1) > 1).any():
        raise ExecutionError(message)
