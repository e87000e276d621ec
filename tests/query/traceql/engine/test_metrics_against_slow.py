"""Series agree with counting span by span, whether spans are read alone or as whole traces."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.values import Ints
from tests.examples import examples
from tests.query.traceql.engine.metrics_support import samples_of, series_of
from tests.query.traceql.engine.slow_evaluator import SlowSpan
from tests.query.traceql.span_texts import BASE, MILLISECOND, read_spans

STEP = 10 * MILLISECOND
GRID = Grid.over(BASE, BASE + 3 * STEP, STEP)

spans = st.lists(
    st.builds(
        SlowSpan,
        trace=st.integers(1, 4),
        id=st.integers(1, 2**40),
        parent=st.just(0),
        name=st.sampled_from("abc"),
        start=st.integers(-5, 40),
        took=st.integers(0, 70),
    ),
    max_size=20,
    unique_by=lambda span: span.id,
)


def written(span: SlowSpan) -> str:
    return f"{span.trace} {span.id:x} - name={span.name} start={span.start} took={span.took}"


def grouped(given_spans: list[SlowSpan]) -> dict[str, list[list[SlowSpan]]]:
    """Returns the spans of each step, by name."""
    found: dict[str, list[list[SlowSpan]]] = defaultdict(lambda: [[] for _ in range(GRID.count)])
    for span in given_spans:
        step = math.ceil((span.start * MILLISECOND - (GRID.first_ns - BASE)) / STEP)
        if 0 <= step < GRID.count:
            found[span.name][step].append(span)
    return dict(sorted(found.items()))


WAYS = ["{} | {}", "{} | count() > 0 | {}"]
"""The second needs whole traces."""


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=examples(60), deadline=None)
@given(given_spans=spans.filter(bool))
def test_series_are_those_of_a_slow_count(way: str, given_spans: list[SlowSpan]) -> None:
    table = read_spans("\n".join(map(written, given_spans)))
    steps = grouped(given_spans)

    def ask(function: str) -> dict[str, list[float | None]]:
        query = way.format("{}", f"{function} by(name)")
        return samples_of(series_of(query, table, GRID, unit_rows=5))

    assert ask("count_over_time()") == {f"name={name}": [len(each) for each in own] for name, own in steps.items()}
    assert ask("rate()") == {
        f"name={name}": [pytest.approx(len(each) / 0.01) for each in own] for name, own in steps.items()
    }
    assert ask("max_over_time(duration)") == {
        f"name={name}": [max((span.took / 1000 for span in each), default=None) for each in own]
        for name, own in steps.items()
    }
    assert ask("sum_over_time(duration)") == {
        f"name={name}": [pytest.approx(sum(span.took for span in each) / 1000) if each else None for each in own]
        for name, own in steps.items()
    }


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(-50, 90), min_size=1), st.integers(1, 20), st.integers(0, 60), st.integers(0, 60))
def test_each_moment_is_in_the_step_that_ends_next(times: list[int], step: int, start: int, length: int) -> None:

    grid = Grid.over(start, start + length, step)
    numbers: Ints = np.array(times, np.int64)
    steps, inside = grid.steps_of(numbers)
    for time, found, within in zip(times, steps.tolist(), inside.tolist(), strict=True):
        ends = [grid.first_ns + place * step for place in range(grid.count)]
        expected = [place for place, end in enumerate(ends) if end - step < time <= end]
        assert ([found] if within else []) == expected
    assert ends[0] == start // step * step
    assert ends[-1] >= start + length
