"""Searches traces: the newest that a pipeline finds, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.query.traceql.engine.columns import valid, whole_column
from frazil.query.traceql.engine.fields import TRACE_COLUMNS, columns_of, fields_of, fields_of_pipeline
from frazil.query.traceql.engine.pipelines import condition, run_pipeline
from frazil.query.traceql.engine.pushdown import predicate_of
from frazil.query.traceql.engine.seeds import seed_of
from frazil.query.traceql.engine.source import Budget, SpanSource
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.spansets import Spansets
from frazil.query.traceql.engine.traces import Traces, assemble
from frazil.query.traceql.engine.values import Bools
from frazil.query.traceql.parse.tree import Field, Pipeline

SECOND = 10**9
MARGIN_NS = 60 * SECOND
"""A span that fits may start this long before or after the time that is searched, if its trace reaches into it."""
TRACE_MARGIN_NS = 3600 * SECOND
"""The spans of a trace are looked for this long before and after the time that is searched."""
_BYTES_OF_ID = 150
"""About this much memory an id takes that is remembered."""
MOST_IDS = 8192
"""So many traces are read and judged at a time, at most. The first are few, because a search may end with them."""


@dataclass(frozen=True)
class FoundTraces:
    """Has traces that were found, with their spansets."""

    traces: Traces
    sets: Spansets
    numbers: list[int]
    """The numbers of the traces that were found, among `traces`."""


def search(
    pipeline: Pipeline,
    source: SpanSource,
    budget: Budget,
    start_ns: int,
    end_ns: int,
    limit: int,
    shown: Sequence[Field] = (),
) -> list[FoundTraces]:
    """Returns the newest traces that reach into the time from `start_ns` to `end_ns`, at most `limit` of them.

    `shown` are fields that results show although the pipeline does not use them.
    """
    columns = [*dict.fromkeys([*TRACE_COLUMNS, *columns_of([*fields_of_pipeline(pipeline), *shown])])]
    found: list[FoundTraces] = []
    starts: list[int] = []
    for ids, latest_ns in candidates(pipeline, source, budget, start_ns, end_ns, limit):
        if ids:
            traces = read_traces(source, budget, ids, (start_ns, end_ns), columns)
            part = _narrowed(pipeline, _judge(pipeline, traces, start_ns, end_ns), limit)
            starts += part.traces.trace_starts[part.numbers].tolist()
            if part.numbers:
                budget.hold(part.traces.table.nbytes)
                found.append(part)
        # A trace that is still to come starts no later than its span, and so no later than this.
        if len(starts) >= limit and sorted(starts, reverse=True)[limit - 1] >= latest_ns:
            break
    return _newest(found, limit)


def candidates(
    pipeline: Pipeline, source: SpanSource, budget: Budget, start_ns: int, end_ns: int, first: int
) -> Iterator[tuple[list[bytes], int]]:
    """Yields ids of traces that may be found, about the newest first, and a moment that no later one starts after."""
    seed = seed_of(pipeline)
    columns = list(dict.fromkeys(["trace_id", "timestamp", *columns_of(fields_of(seed))]))
    seen: set[bytes] = set()
    pending: list[tuple[int, bytes]] = []
    size = min(max(first, 16), MOST_IDS)
    for batch in source.batches(start_ns - MARGIN_NS, end_ns + MARGIN_NS, predicate_of(seed), columns):
        budget.check()
        if not pending:
            yield [], batch.latest_ns
        while len(pending) >= size:
            chosen, pending = pending[:size], pending[size:]
            yield [each for _, each in chosen], max(batch.latest_ns, pending[0][0] if pending else 0)
            size = min(size * 4, MOST_IDS)
        spans = Spans(batch.spans)
        new = [each for each in _trace_times(spans, condition(seed).test(spans)) if each[1] not in seen]
        budget.hold(len(new) * _BYTES_OF_ID)
        seen.update(each for _, each in new)
        pending = sorted([*pending, *new], reverse=True)
    while pending:
        chosen, pending = pending[:size], pending[size:]
        yield [each for _, each in chosen], pending[0][0] if pending else 0
        size = min(size * 4, MOST_IDS)


def _trace_times(spans: Spans, chosen: Bools) -> list[tuple[int, bytes]]:
    """Returns the id of each trace that has a chosen span, with the time of the first such span."""
    ids = whole_column(spans.table, "trace_id")
    kept = chosen & valid(ids)
    encoded = ids.filter(pa.array(kept)).cast(pa.binary()).dictionary_encode()
    times = np.full(len(encoded.dictionary), np.iinfo(np.int64).max)
    np.minimum.at(times, encoded.indices.to_numpy(), spans.starts[kept])
    return list(zip(times.tolist(), encoded.dictionary.to_pylist(), strict=True))


def read_traces(
    source: SpanSource,
    budget: Budget,
    ids: Sequence[bytes],
    times: tuple[int, int],
    columns: Sequence[str],
) -> Traces:
    budget.check()
    table = source.traces(ids, times[0] - TRACE_MARGIN_NS, times[1] + TRACE_MARGIN_NS, columns)
    budget.check()
    return assemble(table)


def _judge(pipeline: Pipeline, traces: Traces, start_ns: int, end_ns: int) -> FoundTraces:
    within = (traces.trace_starts <= end_ns) & (traces.trace_ends >= start_ns)
    sets = run_pipeline(pipeline, traces, Spansets.all_of(traces).keep_sets(within))
    return FoundTraces(traces, sets, np.unique(sets.trace_of_set).tolist())


def _narrowed(pipeline: Pipeline, part: FoundTraces, limit: int) -> FoundTraces:
    """Lets go of most traces if few of them are wanted: those that were found, and of these the newest."""
    if len(part.numbers) > limit:
        starts = part.traces.trace_starts[part.numbers]
        newest = np.argsort(-starts, kind="stable")[:limit]
        part = FoundTraces(part.traces, part.sets, np.sort(np.array(part.numbers)[newest]).tolist())
    if 2 * len(part.numbers) > part.traces.trace_count or not part.numbers:
        return part
    traces = part.traces.only(part.numbers)
    return FoundTraces(traces, run_pipeline(pipeline, traces), list(range(traces.trace_count)))


def _newest(found: list[FoundTraces], limit: int) -> list[FoundTraces]:
    """Returns the parts with only the newest of their traces, newest first."""
    every = [
        (-int(part.traces.trace_starts[number]), part.traces.ids[number].as_py(), place, number)
        for place, part in enumerate(found)
        for number in part.numbers
    ]
    chosen = sorted(every)[:limit]
    return [FoundTraces(found[place].traces, found[place].sets, [number]) for _, _, place, number in chosen]
