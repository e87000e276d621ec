"""Asks queries of spans that are all in memory."""

from __future__ import annotations

import pyarrow as pa

from frazil.query.traceql.engine.columns import hex_texts, id_bytes, whole_column
from frazil.query.traceql.engine.pipelines import run_pipeline
from frazil.query.traceql.engine.traces import Traces, assemble, trace_texts
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Pipeline
from frazil.query.traceql.validate.check import validate


def span_texts(traces: Traces) -> list[str]:
    """Returns the ids of all spans without leading zeros."""
    ids = hex_texts(id_bytes(whole_column(traces.table, "span_id"), 8)).to_pylist()
    return [each.lstrip("0") for each in ids]


def answer(query: str, table: pa.Table) -> dict[str, list[list[str]]]:
    """Returns the spansets that a query finds, by trace: the sorted ids of their spans."""
    tree = parse(query)
    validate(tree)
    assert isinstance(tree.body, Pipeline)
    traces = assemble(table)
    sets = run_pipeline(tree.body, traces)
    names, spans = trace_texts(traces.ids), span_texts(traces)
    found: dict[str, list[list[str]]] = {}
    for number, trace in enumerate(sets.trace_of_set.tolist()):
        rows = sets.rows[sets.set_of_row == number].tolist()
        found.setdefault(names[trace], []).append(sorted(spans[row] for row in rows))
    return {trace: sorted(each) for trace, each in found.items()}
