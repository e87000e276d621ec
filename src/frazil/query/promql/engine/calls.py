"""Evaluates calls of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation, Floats, Steps, Value
from frazil.query.promql.evaluation.matrix import Matrix, drop_names, fail_on_same, stack
from frazil.query.promql.evaluation.selecting import (
    Ranges,
    matrix_block,
    select_instant,
    select_range,
    subquery_steps,
)
from frazil.query.promql.function_table import CALENDAR, FUNCTIONS
from frazil.query.promql.functions import elements, labelling, quantiles
from frazil.query.promql.functions.absence import absence, absence_labels
from frazil.query.promql.functions.info import add_info
from frazil.query.promql.functions.ranges import RangeCall, evaluate_block, note_gauges
from frazil.query.promql.operators.binary import joined
from frazil.query.promql.parse.tree import (
    Call,
    MatrixSelector,
    Node,
    Subquery,
    VectorSelector,
    print_shortest,
    unwrap,
)
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.types import ValueType

ANCHORED = ("changes", "delta", "increase", "rate", "resets")
SMOOTHED = ("delta", "increase", "rate")
INEFFECTIVE = "sort is ineffective for range queries since results are always ordered by labels"


class Calls(ABC):
    """Evaluates functions, with the help of whatever evaluates their arguments."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.delayed = evaluation.options.delayed_names

    @abstractmethod
    def evaluate(self, node: Node, steps: Steps) -> Value: ...

    @abstractmethod
    def vector(self, node: Node, steps: Steps) -> Matrix: ...

    @abstractmethod
    def scalar(self, node: Node, steps: Steps) -> Floats: ...

    def text(self, node: Node, steps: Steps) -> str:
        found = self.evaluate(node, steps)
        assert isinstance(found, str)
        return found

    def named(self, matrix: Matrix) -> Matrix:
        """Joins series that became the same when their names went."""
        return joined(self.evaluation, matrix)

    def keeps_name(self, node: Call) -> bool:
        return FUNCTIONS[node.function].keeps_name

    def call(self, node: Call, steps: Steps) -> Value:
        name, arguments = node.function, node.arguments
        signature = FUNCTIONS[name]
        if ValueType.MATRIX in signature.arguments:
            return self.range_call(node, steps)
        if signature.returns == ValueType.SCALAR:
            return self.scalar_call(node, steps)
        if name in elements.FLOAT_FUNCTIONS:
            return self.named(
                elements.map_floats(self.vector(arguments[0], steps), elements.FLOAT_FUNCTIONS[name], self.delayed)
            )
        if name in elements.HISTOGRAM_FUNCTIONS:
            function = elements.HISTOGRAM_FUNCTIONS[name]
            return self.named(elements.map_histograms(self.vector(arguments[0], steps), function, self.delayed))
        if name in CALENDAR:
            return self.calendar(node, steps)
        if name.startswith("clamp") or name == "round":
            return self.named(self.bounded(node, steps))
        if name in ("timestamp", "start_timestamp"):
            return self.named(self.timestamps(node, steps))
        if name.startswith("histogram_"):
            return self.named(self.quantile_call(node, steps))
        if name == "vector":
            values = self.scalar(arguments[0], steps)
            return Matrix(LabelTable(1, {}), values[None, :], np.ones((1, len(values)), bool))
        if name == "absent":
            return absence(self.vector(arguments[0], steps).mask, absence_labels(arguments[0]), steps.count)
        if name.startswith("sort"):
            return self.sorted(node, steps)
        if name == "info":
            return add_info(self.evaluation, self.vector(arguments[0], steps), node, steps)
        return self.relabelled(node, steps)

    def scalar_call(self, node: Call, steps: Steps) -> Floats:
        query = self.evaluation.query
        constants = {
            "pi": np.pi,
            "start": query.first / 1000,
            "end": query.last / 1000,
            "range": (query.last - query.first) / 1000,
            "step": query.interval / 1000 if query.first != query.last else 0.0,
        }
        if node.function in constants:
            return np.full(steps.count, constants[node.function])
        if node.function == "time":
            return steps.times / 1000
        if node.function == "scalar":
            vector = self.vector(node.arguments[0], steps)
            number = vector.present.sum(axis=0)
            values = np.zeros(steps.count)
            if vector.size:
                first = np.argmax(vector.present, axis=0)
                values = vector.values[first, np.arange(steps.count)]
            return np.where(number == 1, values, np.nan)
        left, right = (self.scalar(argument, steps) for argument in node.arguments)
        return elements.lesser(left, right) if node.function == "min_of" else elements.greater(left, right)

    def calendar(self, node: Call, steps: Steps) -> Matrix:
        if not node.arguments:
            values = elements.calendar(node.function, steps.times / 1000)
            return Matrix(LabelTable(1, {}), values[None, :], np.ones((1, steps.count), bool))
        vector = self.vector(node.arguments[0], steps)
        return self.named(elements.map_floats(vector, lambda v: elements.calendar(node.function, v), self.delayed))

    def bounded(self, node: Call, steps: Steps) -> Matrix:
        vector = self.vector(node.arguments[0], steps)
        limits = [self.scalar(argument, steps) for argument in node.arguments[1:]]
        if node.function == "round":
            nearest = limits[0] if limits else np.ones(steps.count)
            return elements.round_to(vector, nearest, self.delayed)
        low, high = np.full(steps.count, -np.inf), np.full(steps.count, np.inf)
        if node.function == "clamp":
            low, high = limits
        elif node.function == "clamp_min":
            low = limits[0]
        else:
            high = limits[0]
        return elements.clamp(vector, low, high, self.delayed)

    def timestamps(self, node: Call, steps: Steps) -> Matrix:
        """Returns when samples were, of a bare selector, or when they are evaluated."""
        selector = unwrap(node.arguments[0])
        if not isinstance(selector, VectorSelector):
            vector = self.vector(selector, steps)
            if node.function == "start_timestamp":
                return vector.take(np.empty(0, np.int64))
            values = np.broadcast_to(steps.times / 1000, vector.values.shape)
            found = Matrix(vector.labels, values, vector.mask, None, vector.dropped)
            return drop_names(found, self.delayed)
        parts = []
        for newest in select_instant(self.evaluation, selector, steps, with_times=True):
            times = newest.times if node.function == "timestamp" else newest.starts
            parts.append(Matrix(newest.matrix.labels, times / 1000, newest.matrix.mask))
        if node.function == "start_timestamp" and not self.evaluation.options.start_timestamps:
            parts = []
        return drop_names(stack(parts, steps.count), self.delayed)

    def quantile_call(self, node: Call, steps: Steps) -> Matrix:
        arguments = node.arguments
        if node.function == "histogram_quantile":
            q = self.scalar(arguments[0], steps)
            vector = self.vector(arguments[1], steps)
            return quantiles.histogram_quantile(self.evaluation, vector, q, steps, arguments[0], arguments[1])
        if node.function == "histogram_fraction":
            lower, upper = (self.scalar(argument, steps) for argument in arguments[:2])
            vector = self.vector(arguments[2], steps)
            return quantiles.histogram_fraction(self.evaluation, vector, lower, upper, arguments[2])
        vector = self.vector(arguments[0], steps)
        wanted = [(self.scalar(argument, steps), argument) for argument in arguments[2:]]
        label = self.text(arguments[1], steps)
        return quantiles.histogram_quantiles(self.evaluation, vector, label, wanted, steps, arguments[0])

    def sorted(self, node: Call, steps: Steps) -> Matrix:
        vector = self.vector(node.arguments[0], steps)
        by_label = "by_label" in node.function
        if not by_label:
            vector = vector.floats_only().without_empty()
        if not steps.single:
            self.evaluation.warn(INEFFECTIVE, node)
            return vector
        descending = node.function.endswith("_desc")
        if not by_label:
            return vector.take(labelling.order_by_value(vector, descending))
        names = [self.text(argument, steps) for argument in node.arguments[1:]]
        return vector.take(labelling.order_by_labels(vector, names, descending))

    def relabelled(self, node: Call, steps: Steps) -> Matrix:
        vector = self.vector(node.arguments[0], steps)
        texts = [self.text(argument, steps) for argument in node.arguments[1:]]
        if node.function == "label_replace":
            return labelling.label_replace(vector, *texts)
        return labelling.label_join(vector, texts[0], texts[1], texts[2:])

    def warn_of_quantile(self, q: Floats, node: Node) -> None:
        for value in np.unique(q[~((q >= 0) & (q <= 1))]):
            shown = print_shortest(float(value))
            self.evaluation.warn(f"quantile value should be between 0 and 1, got {shown}", node)

    def ranges(self, node: Node, steps: Steps, hints: bool = False) -> Ranges:
        """Returns the samples of a range selector or subquery."""
        node = unwrap(node)
        if isinstance(node, MatrixSelector):
            return select_range(self.evaluation, node, steps, reach=True)
        assert isinstance(node, Subquery)
        ends = self.evaluation.moments(node, steps)
        inner = subquery_steps(self.evaluation, node, ends)
        range_ms = self.evaluation.duration_ms(node.range)
        if inner.first > inner.last:
            return Ranges([], ends, range_ms, [])
        matrix = self.vector(node.expression, inner)
        self.evaluation.hold(int(matrix.mask.sum()))
        return Ranges([matrix_block(matrix, inner.times, hints)], ends, range_ms, [matrix.dropped])

    def check_extension(self, node: Call, argument: Node) -> None:
        argument = unwrap(argument)
        if not isinstance(argument, MatrixSelector):
            return
        for word, allowed, used in (
            ("anchored", ANCHORED, argument.selector.anchored),
            ("smoothed", SMOOTHED, argument.selector.smoothed),
        ):
            if used and node.function not in allowed:
                raise ExecutionError(
                    f"{word} modifier can only be used with: {', '.join(allowed)} - not with {node.function}"
                )

    def range_call(self, node: Call, steps: Steps) -> Matrix:
        signature = FUNCTIONS[node.function]
        at = signature.arguments.index(ValueType.MATRIX)
        argument = node.arguments[at]
        others = [a for index, a in enumerate(node.arguments) if index != at]
        scalars = [self.scalar(other, steps) for other in others]
        self.check_extension(node, argument)
        if node.function == "double_exponential_smoothing":
            check_factors(scalars)
        ranges = self.ranges(argument, steps)
        if node.function == "absent_over_time":
            name = Call("present_over_time", node.arguments)
            call = RangeCall(self.evaluation, name, argument, steps, ranges, [])
            parts = [evaluate_block(call, block).mask for block in ranges.blocks]
            mask = np.concatenate(parts) if parts else np.zeros((0, steps.count), bool)
            return absence(mask, absence_labels(argument), steps.count)
        call = RangeCall(self.evaluation, node, argument, steps, ranges, scalars)
        found = []
        for block, dropped in zip(ranges.blocks, ranges.dropped, strict=True):
            matrix = evaluate_block(call, block)
            found.append(self.finish_range(call, replace(matrix, dropped=dropped)))
        result = stack(found, steps.count).without_empty()
        if node.function == "quantile_over_time" and result.size:
            self.warn_of_quantile(scalars[0], node.arguments[0])
        if not self.delayed and not self.keeps_name(node):
            fail_on_same(result.labels)
        return result

    def finish_range(self, call: RangeCall, matrix: Matrix) -> Matrix:
        note_gauges(call, matrix)
        return matrix if self.keeps_name(call.node) else drop_names(matrix, self.delayed)


def check_factors(factors: list[Floats]) -> None:
    """Raises an error unless both smoothing factors are between 0 and 1."""
    for values, word, sign in zip(factors, ("smoothing", "trend"), ("sf", "tf"), strict=True):
        wrong = values[~((values > 0) & (values < 1))]
        if len(wrong):
            raise ExecutionError(f"invalid {word} factor. Expected: 0 < {sign} < 1, got: {wrong[0]:f}")
