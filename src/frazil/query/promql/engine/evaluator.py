"""Evaluates a tree: each kind of node by the module that knows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from frazil.query.promql.engine.calls import Calls
from frazil.query.promql.evaluation.context import Floats, Steps, Value
from frazil.query.promql.evaluation.matrix import Matrix, drop_names
from frazil.query.promql.evaluation.selecting import CHUNK, instant_vector, select_range
from frazil.query.promql.function_table import CALENDAR
from frazil.query.promql.functions.ranges import RangeCall, evaluate_block
from frazil.query.promql.functions.smoothing import smoothed_vector
from frazil.query.promql.operators import aggregate, binary, elementwise, ranking
from frazil.query.promql.parse.tokens import SET_OPERATORS
from frazil.query.promql.parse.tree import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    Node,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
    unwrap,
)
from frazil.query.promql.series.labels import concatenate
from frazil.query.promql.series.source import SeriesBlock
from frazil.query.promql.windows.folds import HUGE

# Their values depend on the time of evaluation even where all that they are given does not.
UNSTEADY = frozenset(
    [*CALENDAR, "predict_linear", "time", "timestamp", "start_timestamp"],
)
# The aggregations that take rows some at a time.
PIECEWISE = frozenset(["sum", "avg", "min", "max", "count", "group"])


def is_steady(node: Node) -> bool:
    """Whether the value is the same at all steps, because all samples in it are bound to one time."""
    if isinstance(node, VectorSelector | Subquery):
        return node.at is not None
    if isinstance(node, Call) and node.function in UNSTEADY:
        return False
    return all(is_steady(child) for child in node.children())


class Evaluator(Calls):
    """Evaluates nodes; `Calls` evaluates functions."""

    def evaluate(self, node: Node, steps: Steps) -> Value:
        if isinstance(node, Paren):
            return self.evaluate(node.expression, steps)
        if isinstance(node, NumberLiteral):
            return np.full(steps.count, node.value)
        if isinstance(node, StringLiteral):
            return node.value
        if steps.count > 1 and is_steady(node):
            found = self.evaluate(node, steps.only_first)
            if isinstance(found, Matrix):
                self.evaluation.hold(int(found.mask.sum()) * (steps.count - 1))
                return found.repeat(steps.count)
            return np.full(steps.count, found[0]) if not isinstance(found, str) else found
        self.evaluation.check()
        return self.unsteady(node, steps)

    def unsteady(self, node: Node, steps: Steps) -> Value:
        if isinstance(node, VectorSelector):
            select = smoothed_vector if node.smoothed else instant_vector
            return select(self.evaluation, node, steps)
        if isinstance(node, Unary):
            return self.unary(node, steps)
        if isinstance(node, Binary):
            return self.binary(node, steps)
        if isinstance(node, Aggregate):
            return self.aggregate(node, steps)
        assert isinstance(node, Call)
        return self.call(node, steps)

    def vector(self, node: Node, steps: Steps) -> Matrix:
        found = self.evaluate(node, steps)
        assert isinstance(found, Matrix)
        return found

    def scalar(self, node: Node, steps: Steps) -> Floats:
        found = self.evaluate(node, steps)
        assert isinstance(found, np.ndarray)
        return found

    def unary(self, node: Unary, steps: Steps) -> Value:
        found = self.evaluate(node.expression, steps)
        if node.op == "+" or isinstance(found, str):
            return found
        if not isinstance(found, Matrix):
            return -found
        cells = found.cells
        if cells is not None:
            cells = cells.copy()
            for row, step in np.argwhere(found.histograms):
                cells[row, step] = cells[row, step].times(-1.0)
        negative = replace(found, values=-found.values, cells=cells)
        return self.named(drop_names(negative, self.delayed))

    def binary(self, node: Binary, steps: Steps) -> Value:
        left, right = self.evaluate(node.left, steps), self.evaluate(node.right, steps)
        assert not isinstance(left, str)
        assert not isinstance(right, str)
        if isinstance(left, Matrix) and isinstance(right, Matrix):
            if node.op in SET_OPERATORS:
                return binary.set_operation(self.evaluation, node, left, right)
            return binary.vector_vector(self.evaluation, node, left, right)
        if isinstance(left, Matrix):
            return binary.vector_scalar(self.evaluation, node, left, right, False)  # type: ignore[arg-type]
        if isinstance(right, Matrix):
            return binary.vector_scalar(self.evaluation, node, right, left, True)
        return elementwise.scalars(node.op, left, right)

    def aggregate(self, node: Aggregate, steps: Steps) -> Matrix:
        if node.op in PIECEWISE:
            found = self.in_pieces(node, steps)
            if found is not None:
                return found
        matrix = self.vector(node.expression, steps)
        if node.op in PIECEWISE:
            if node.op in ("sum", "avg") and self.may_overflow(matrix):
                return aggregate.in_order(self.evaluation, node, matrix, None)
            return aggregate.aggregate(
                self.evaluation, node, matrix.labels, lambda: aggregate.pieces_of(matrix, node), steps.count
            )
        if node.op in ("stddev", "stdvar"):
            return aggregate.in_order(self.evaluation, node, matrix, None)
        assert node.parameter is not None
        if node.op == "count_values":
            label = self.evaluate(node.parameter, steps)
            assert isinstance(label, str)
            return ranking.count_values(self.evaluation, node, matrix, label)
        parameter = self.scalar(node.parameter, steps)
        if node.op == "quantile":
            self.warn_of_quantile(parameter, node.parameter)
            return aggregate.in_order(self.evaluation, node, matrix, parameter)
        choose = {
            "topk": ranking.choose_best,
            "bottomk": ranking.choose_best,
            "limitk": ranking.limit_count,
            "limit_ratio": ranking.limit_share,
        }[node.op]
        return choose(self.evaluation, node, matrix, parameter)

    def may_overflow(self, matrix: Matrix) -> bool:
        values = matrix.values[matrix.present & np.isfinite(matrix.values)]
        return bool(values.size and np.abs(values).max() > HUGE) and matrix.cells is None

    def in_pieces(self, node: Aggregate, steps: Steps) -> Matrix | None:
        """Aggregates a function over a range some series at a time, so that no matrix of all series is needed.

        Returns None where that does not help, or sums could overflow and need an order.
        """
        call = unwrap(node.expression)
        if not isinstance(call, Call) or len(call.arguments) != 1 or call.function == "absent_over_time":
            return None
        argument = unwrap(call.arguments[0])
        if not isinstance(argument, MatrixSelector) or (steps.count > 1 and is_steady(call)):
            return None
        self.check_extension(call, argument)
        ranges = select_range(self.evaluation, argument, steps, reach=True)
        if any(block.histograms is not None for block in ranges.blocks) or not ranges.blocks:
            return None
        range_call = RangeCall(self.evaluation, call, call.arguments[0], steps, ranges, [])
        labels = concatenate([block.labels for block in ranges.blocks])
        if not self.keeps_name(call):
            labels = labels if self.delayed else labels.drop(("__name__", "__type__", "__unit__"))

        def pieces() -> Iterator[aggregate.Piece]:
            first = 0
            for block in ranges.blocks:
                for begin in range(0, block.labels.size, CHUNK):
                    end = min(begin + CHUNK, block.labels.size)
                    rows = np.arange(begin, end)
                    part = SeriesBlock(block.labels.take(rows), block.floats.part(begin, end))
                    if largest(part) > HUGE:
                        raise OverflowError
                    matrix = self.finish_range(range_call, evaluate_block(range_call, part))
                    self.evaluation.samples -= int(matrix.present.sum())
                    yield aggregate.Piece(rows + first, matrix)
                first += block.labels.size

        try:
            return aggregate.aggregate(self.evaluation, node, labels, pieces, steps.count)
        except OverflowError:
            return None


def largest(block: SeriesBlock) -> float:
    """Returns the greatest distance from 0 of all finite values."""
    sizes = np.abs(block.floats.values)
    found = float(sizes.max()) if sizes.size else 0.0
    if found < np.inf:
        return found
    finite = sizes[np.isfinite(sizes)]
    return float(finite.max()) if finite.size else 0.0
