"""Makes labels of series from other labels of theirs."""

from __future__ import annotations

import pyarrow as pa

from frazil.query.logql.metrics.matrix import Matrix, SeriesLabels
from frazil.query.logql.parse.metric_tree import LabelReplace
from frazil.query.logql.regexes import anchored, groups_of, replacement_parts


def replace_label(node: LabelReplace, matrix: Matrix) -> Matrix:
    """Gives `target` the replacement where the whole source label matches; an empty one removes the label."""
    sources = sorted({dict(labels).get(node.source, "") for labels in matrix.series})
    made = dict(zip(sources, _replacements(node, sources), strict=True))
    series = [_replaced(labels, node.target, made[dict(labels).get(node.source, "")]) for labels in matrix.series]
    return Matrix(series, matrix.values, matrix.present)


def _replacements(node: LabelReplace, sources: list[str]) -> list[str | None]:
    groups = groups_of(f"({anchored(node.pattern)})")
    parts = replacement_parts(node.replacement, groups.names[1:])
    found = groups.extract(pa.array(sources, pa.string())).to_pylist()
    return [
        None if match is None else "".join(match[f"g{part + 1}"] if isinstance(part, int) else part for part in parts)
        for match in found
    ]


def _replaced(labels: SeriesLabels, target: str, value: str | None) -> SeriesLabels:
    if value is None:
        return labels
    others = tuple(each for each in labels if each[0] != target and each[1])
    return tuple(sorted((*others, (target, value)))) if value else others
