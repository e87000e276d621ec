"""Counts which services call which, by the parents of spans."""

from __future__ import annotations

from collections import Counter

import numpy as np

from frazil.query.traceql.engine.codes import distinct_codes
from frazil.query.traceql.engine.fields import TRACE_COLUMNS
from frazil.query.traceql.engine.search import MOST_IDS, candidates, read_traces
from frazil.query.traceql.engine.seeds import TRUE
from frazil.query.traceql.engine.source import Budget, SpanSource
from frazil.query.traceql.engine.traces import Traces
from frazil.query.traceql.parse.tree import Attribute, Filter, Pipeline

_SERVICE = Attribute("resource", "service.name")
_ALL = Pipeline((Filter(TRUE),))


def service_calls(source: SpanSource, budget: Budget, start_ns: int, end_ns: int) -> Counter[tuple[str, str]]:
    """Returns how many spans of one service are children of another's, in the traces of a time."""
    found: Counter[tuple[str, str]] = Counter()
    for ids, _ in candidates(_ALL, source, budget, start_ns, end_ns, MOST_IDS):
        if ids:
            found += _calls(read_traces(source, budget, ids, (start_ns, end_ns), TRACE_COLUMNS))
    return found


def _calls(traces: Traces) -> Counter[tuple[str, str]]:
    codes, services = traces.column(_SERVICE).distinct()
    children = np.flatnonzero(traces.parents >= 0)
    callers, called = codes[traces.parents[children]], codes[children]
    other = callers != called
    pairs, places = distinct_codes(callers[other] * len(services) + called[other])
    counts = np.bincount(places, minlength=len(pairs)).tolist()
    names = [str(service.value or "") for service in services]
    split = (divmod(pair, len(names)) for pair in pairs.tolist())
    return Counter({(names[one], names[two]): count for (one, two), count in zip(split, counts, strict=True)})
