"""Tests that all endpoints answer the same, wherever the lines are: in memory, segments, table or all."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from frazil.query.logql.api import detected_fields, detected_labels, labels, patterns, queries, volume
from tests.query.logql.api.support import SECOND, START, Lines

_ALL = '{app=~".+"}'
_QUESTIONS: list[tuple[Any, dict[str, Any]]] = [
    (queries.query_range, {"query": _ALL + ' |= "done"', "limit": 40}),
    (queries.query_range, {"query": _ALL + " | logfmt | took > 50ms", "direction": "forward"}),
    (queries.query_range, {"query": f"sum by (app, level) (count_over_time({_ALL} | logfmt [1m]))", "step": 60}),
    (queries.query, {"query": f"sum(rate({_ALL}[10m]))", "time": START // SECOND + 600}),
    (labels.labels, {}),
    (labels.series, {}),
    (volume.volume, {"query": _ALL}),
    (volume.volume_range, {"query": _ALL, "step": 60}),
    (volume.stats, {"query": _ALL}),
    (detected_labels.detected_labels, {}),
    (detected_fields.detected_fields, {"query": _ALL}),
    (patterns.patterns, {"query": _ALL, "step": 60}),
]


def answers(lines: Lines) -> list[Any]:
    found = [lines.ask(answer, **given) for answer, given in _QUESTIONS]
    for each in found:
        if isinstance(each.get("data"), dict):
            each["data"].pop("stats", None)
    return found


def push(lines: Lines, rng: random.Random, count: int) -> None:
    for app in ("shop", "web"):
        lines.push(
            (
                {"app": app, "pod": f"{app}-{rng.randrange(2)}"},
                [
                    (
                        START + rng.randrange(600) * SECOND,
                        f"level={rng.choice(['info', 'error'])} took={rng.randrange(100)}ms msg=done",
                        {"user": f"u{rng.randrange(3)}"},
                    )
                    for _ in range(count)
                ],
            )
        )


def test_answers_are_the_same_wherever_the_lines_are(tmp_path: Path) -> None:
    rng = random.Random(1)
    with Lines(tmp_path) as lines:
        push(lines, rng, 30)
        push(lines, rng, 30)
        hot = answers(lines)
        assert all(each.get("data", each) for each in hot)
        lines.seal()
        assert answers(lines) == hot
        lines.move()
        assert answers(lines) == hot
        lines.forget()
        assert answers(lines) == hot
        push(lines, rng, 20)
        half = answers(lines)
        lines.move()
        lines.forget()
        assert answers(lines) == half
