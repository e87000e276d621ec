"""Runs the stages of a pipeline over whole traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from frazil.query.traceql.engine import structure
from frazil.query.traceql.engine.aggregates import aggregate
from frazil.query.traceql.engine.comparing import compare_with
from frazil.query.traceql.engine.conditions import Condition
from frazil.query.traceql.engine.spansets import Spansets
from frazil.query.traceql.engine.traces import Traces
from frazil.query.traceql.engine.values import Bools, Values, joined
from frazil.query.traceql.errors import TraceQLInvalid
from frazil.query.traceql.parse.tree import (
    Aggregate,
    Coalesce,
    Expression,
    Filter,
    GroupBy,
    Pipeline,
    ScalarFilter,
    Select,
    Spanset,
    SpansetOperation,
    Stage,
    Static,
)

_SEVERAL_SETS = "spanset operators are not supported for multiple spansets per trace. consider using coalesce()"


def run_pipeline(pipeline: Pipeline, traces: Traces, sets: Spansets | None = None) -> Spansets:
    """Returns the spansets that are left of all traces at the end of the pipeline."""
    found = Spansets.all_of(traces) if sets is None else sets
    for stage in pipeline.stages:
        found = _run_stage(stage, traces, found)
    return found


@lru_cache(maxsize=2048)
def condition(expression: Expression) -> Condition:
    return Condition(expression)


def _run_stage(stage: Stage, traces: Traces, sets: Spansets) -> Spansets:
    match stage:
        case Filter() | SpansetOperation():
            return sets.keep_rows(_chosen(stage, traces, sets))
        case ScalarFilter():
            assert isinstance(stage.left, Aggregate)
            assert isinstance(stage.right, Static)
            values = aggregate(stage.left, traces, sets)
            kept = compare_with(stage.operator, values, stage.right)
            return sets.with_attribute(str(stage.left), values).keep_sets(kept)
        case GroupBy():
            return _group(stage, traces, sets)
        case Coalesce():
            return sets.coalesce()
        case Select():
            return sets


def _group(stage: GroupBy, traces: Traces, sets: Spansets) -> Spansets:
    column = condition(stage.expression).value(stage.expression, traces).take(sets.rows)
    codes, statics = column.distinct()
    values = [
        Values.of_texts(pa.array(["nil"])) if each.value is None else Values.of_static(each) for each in statics
    ]
    return sets.split(codes, f"by({stage.expression})", joined(values)) if values else sets


def _chosen(node: Spanset, traces: Traces, sets: Spansets) -> Bools:
    """Tells which rows of the sets a spanset has."""
    match node:
        case Filter():
            found: Bools = condition(node.expression).test(traces)[sets.rows]
            return found
        case Pipeline():
            kept = np.zeros(traces.count, bool)
            kept[run_pipeline(node, traces, sets).rows] = True
            chosen: Bools = kept[sets.rows]
            return chosen
    left, right = _chosen(node.left, traces, sets), _chosen(node.right, traces, sets)
    match node.operator:
        case "&&":
            both = sets.any_of(left) & sets.any_of(right)
            return (left | right) & both[sets.set_of_row]
        case "||":
            return left | right
    if not sets.one_for_each_trace:
        raise TraceQLInvalid(_SEVERAL_SETS)
    return _related(node.operator, traces, sets, left, right)


_Relation = Callable[[Traces, Bools], Bools]

_RELATIONS: dict[str, tuple[_Relation, str]] = {
    ">": (lambda traces, chosen: structure.children_of(traces.parents, chosen), "<"),
    "<": (lambda traces, chosen: structure.parents_of(traces.parents, chosen), ">"),
    ">>": (lambda traces, chosen: structure.below(traces.parents, chosen, traces.longest), "<<"),
    "<<": (lambda traces, chosen: structure.above(traces.parents, chosen, traces.longest), ">>"),
    "~": (lambda traces, chosen: structure.siblings_of(traces.parents, traces.trace_of_row, chosen), "~"),
}
"""By its symbol: which spans a relation leads to from the chosen ones, and the relation that leads back."""


def _related(symbol: str, traces: Traces, sets: Spansets, left: Bools, right: Bools) -> Bools:
    relation, back = _RELATIONS[symbol.lstrip("!&")]
    reached = relation(traces, _of_all(traces, sets, left))[sets.rows]
    if symbol.startswith("!"):
        return right & ~reached
    if symbol.startswith("&"):
        returned = _RELATIONS[back][0](traces, _of_all(traces, sets, right))[sets.rows]
        return (right & reached) | (left & returned)
    return right & reached


def _of_all(traces: Traces, sets: Spansets, chosen: Bools) -> Bools:
    found = np.zeros(traces.count, bool)
    found[sets.rows[chosen]] = True
    return found
