"""Chooses a few of the spans that samples count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from frazil.query.traceql.engine.codes import distinct_codes
from frazil.query.traceql.engine.columns import whole_column
from frazil.query.traceql.engine.metrics.series import Exemplar, Label, text
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.traces import trace_texts
from frazil.query.traceql.engine.values import Floats, Ints
from frazil.query.traceql.parse.tree import Field


class Chosen(NamedTuple):
    group: int
    exemplar: Exemplar


class ExemplarChoice:
    """Takes one span for each group and step, of traces that it has not taken one of, and keeps some in the end."""

    def __init__(self, most: int, fields: Sequence[Field]) -> None:
        self._most = most
        self._fields = [field for field in dict.fromkeys(fields) if str(field) != "trace:id"]
        self._taken: dict[tuple[int, int], Chosen] = {}
        self._traces: set[str] = set()

    def offer(self, spans: Spans, rows: Ints, groups: Ints, steps: Ints, values: Floats | None) -> None:
        """`values` are those of the rows, where an exemplar has the value of its span."""
        room = 4 * self._most - len(self._taken)
        if room <= 0 or not len(rows):
            return
        used, inverse = distinct_codes(groups * (int(steps.max()) + 1) + steps)
        places = np.zeros(len(used), np.int64)
        places[inverse[::-1]] = np.arange(len(rows))[::-1]
        first = [place for place in places.tolist() if (int(groups[place]), int(steps[place])) not in self._taken]
        ids = trace_texts(whole_column(spans.table, "trace_id").take(pa.array(rows[first[:room]])))
        for place, trace in zip(first, ids, strict=False):
            if trace in self._traces:
                continue
            self._traces.add(trace)
            row = np.array([rows[place]])
            labels = []
            for field in self._fields:
                shown = spans.column(field).take(row).expanded().static(0)
                if shown.value is not None:
                    labels.append(Label(str(field), shown))
            group, step = int(groups[place]), int(steps[place])
            time_ms = int(spans.starts[row[0]]) // 10**6
            value = float("nan") if values is None else float(values[place])
            exemplar = Exemplar((*labels, Label("trace:id", text(trace))), value, time_ms, step)
            self._taken[group, step] = Chosen(group, exemplar)

    def of_groups(self) -> dict[int, list[Exemplar]]:
        """Returns the exemplars of each group by time, spread over all steps."""
        every = sorted(self._taken.values(), key=lambda each: (each.exemplar.step, each.group))
        if len(every) > self._most:
            every = [every[place * len(every) // self._most] for place in range(self._most)]
        found: dict[int, list[Exemplar]] = {}
        for group, exemplar in every:
            found.setdefault(group, []).append(exemplar)
        return {group: sorted(each, key=lambda one: one.time_ms) for group, each in found.items()}
