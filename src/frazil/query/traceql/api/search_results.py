"""Writes found traces as Tempo's answers to searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from frazil.query.traceql.api.shown_traces import NAME, ShownTraces
from frazil.query.traceql.api.values_json import Json, field_json, value_json
from frazil.query.traceql.engine.fields import fields_of_pipeline
from frazil.query.traceql.engine.search import FoundTraces
from frazil.query.traceql.parse.tree import Attribute, Field, Pipeline, Select

_NOT_LISTED = frozenset({"name", "duration", "traceDuration", "rootName", "rootServiceName", "trace:id", "span:id"})


def selected_fields(pipeline: Pipeline) -> list[Field]:
    """Returns the fields of `select`. Those without a scope are shown from the span and from its resource."""
    found: list[Field] = []
    for stage in pipeline.stages:
        for field in stage.fields if isinstance(stage, Select) else ():
            if isinstance(field, Attribute) and not field.scope:
                found += [Attribute("span", field.name), Attribute("resource", field.name)]
            else:
                found.append(field)
    return found


def shown_fields(pipeline: Pipeline) -> list[Field]:
    """Returns the fields that the pipeline touches, those of `select` last."""
    selected = {field for stage in pipeline.stages if isinstance(stage, Select) for field in stage.fields}
    touched = [field for field in fields_of_pipeline(pipeline) if field not in selected]
    return list(dict.fromkeys([*touched, *selected_fields(pipeline)]))


def trace_results(found: Sequence[FoundTraces], pipeline: Pipeline, most_spans: int) -> list[Json]:
    fields = shown_fields(pipeline)
    return [
        _trace(part, number, shown, fields, most_spans) for part, shown in _shown(found) for number in part.numbers
    ]


def trace_summaries(found: Sequence[FoundTraces]) -> list[Json]:
    """Writes traces without their spans, as searches for tags show them."""
    return [shown.summary(number) for part, shown in _shown(found) for number in part.numbers]


def _shown(found: Sequence[FoundTraces]) -> Iterator[tuple[FoundTraces, ShownTraces]]:
    """Yields what was found with its traces, which many parts may share."""
    known: dict[int, ShownTraces] = {}
    for part in found:
        key = id(part.traces)
        if key not in known:
            known[key] = ShownTraces(part.traces)
        yield part, known[key]


def _trace(part: FoundTraces, number: int, shown: ShownTraces, fields: list[Field], most_spans: int) -> Json:
    first, last = np.searchsorted(part.sets.trace_of_set, [number, number + 1])
    sets = [_spanset(part, each, shown, fields, most_spans) for each in range(first, last)]
    own = {"spanSet": sets[0], "spanSets": sets, "serviceStats": shown.service_stats(number)}
    return shown.summary(number) | own


def _spanset(part: FoundTraces, number: int, shown: ShownTraces, fields: list[Field], most_spans: int) -> Json:
    first, last = np.searchsorted(part.sets.set_of_row, [number, number + 1])
    rows = part.sets.rows[first : min(last, first + most_spans)].tolist()
    found: Json = {"spans": [_span(row, shown, fields) for row in rows], "matched": int(last - first)}
    attributes = [
        {"key": each.name, "value": value_json(each.values.static(number))} for each in part.sets.attributes
    ]
    return found | ({"attributes": attributes} if attributes else {})


def _span(row: int, shown: ShownTraces, fields: list[Field]) -> Json:
    span = shown.span(row)
    if NAME in fields and (name := shown.text(NAME, row)):
        span["name"] = name
    listed = (field for field in fields if field.key not in _NOT_LISTED or isinstance(field, Attribute))
    values = ((field.key, field_json(shown.traces.column(field), row)) for field in listed)
    attributes = [{"key": key, "value": value} for key, value in values if value is not None]
    return span | ({"attributes": attributes} if attributes else {})
