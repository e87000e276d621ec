"""Asks metrics queries of spans in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from frazil.query.traceql.engine.metrics.evaluation import Question, evaluate
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.series import Series, text_of
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import MetricsOperation, MetricsQuery, SecondStages
from frazil.query.traceql.validate.check import validate
from tests.query.traceql.memory import MemorySpans, NoBudget


def series_of(query: str, table: pa.Table, grid: Grid, exemplars: int = 0, unit_rows: int = 3) -> list[Series]:
    tree = parse(query)
    validate(tree)
    assert isinstance(tree.body, MetricsQuery | MetricsOperation | SecondStages)
    return evaluate(tree.body, Question(MemorySpans(table, unit_rows), NoBudget(), grid, exemplars))


def samples_of(series: list[Series]) -> dict[str, list[Any]]:
    """Returns samples by labels, None for what is missing."""
    return {
        ", ".join(f"{label.key}={text_of(label.value)}" for label in each.labels): [
            None if np.isnan(sample) else float(sample) for sample in each.samples
        ]
        for each in series
    }
