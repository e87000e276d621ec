"""Evaluates absent and absent_over_time: something where nothing is."""

from __future__ import annotations

import numpy as np

from frazil.query.promql.evaluation.matrix import Mask, Matrix, empty_matrix
from frazil.query.promql.parse.tree import METRIC_NAME, MatrixSelector, Node, VectorSelector, unwrap
from frazil.query.promql.series.labels import LabelTable


def absence_labels(node: Node) -> dict[str, str]:
    """Returns the labels that a selector asks for by equality, each by one matcher only."""
    node = unwrap(node)
    if isinstance(node, MatrixSelector):
        node = node.selector
    if not isinstance(node, VectorSelector):
        return {}
    found: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in node.matchers:
        if matcher.name == METRIC_NAME:
            continue
        if matcher.op == "=" and matcher.name not in seen:
            found[matcher.name] = matcher.value
            seen.add(matcher.name)
        else:
            found.pop(matcher.name, None)
    return {name: value for name, value in found.items() if value}


def absence(mask: Mask, labels: dict[str, str], steps: int) -> Matrix:
    """Returns 1 at the steps where nothing is."""
    absent: Mask = np.asarray(~mask.any(axis=0)) if len(mask) else np.ones(steps, bool)
    if not absent.any():
        return empty_matrix(steps)
    return Matrix(LabelTable.of([labels]), np.ones((1, steps)), absent[None, :])
