"""Writes found traces as Tempo's answers to searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.query.traceql.api.values_json import Json, field_json, value_json
from frazil.query.traceql.engine.codes import distinct_codes
from frazil.query.traceql.engine.columns import hex_texts, id_bytes, integers, whole_column
from frazil.query.traceql.engine.fields import fields_of_pipeline
from frazil.query.traceql.engine.search import FoundTraces
from frazil.query.traceql.engine.traces import Traces, trace_texts
from frazil.query.traceql.parse.tree import Attribute, Field, Intrinsic, Pipeline, Select

NO_ROOT = "<root span not yet received>"
_ERROR = 2
_NAME = Intrinsic("name")
_SERVICE = Attribute("resource", "service.name")
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
    return [_trace(part, number, fields, most_spans) for part in found for number in part.numbers]


def trace_summaries(found: Sequence[FoundTraces]) -> list[Json]:
    """Writes traces without their spans, as searches for tags show them."""
    return [_summary(part.traces, number) for part in found for number in part.numbers]


def _summary(traces: Traces, number: int) -> Json:
    start = int(traces.trace_starts[number])
    took_ms = (int(traces.trace_ends[number]) - start) // 10**6
    root = int(traces.roots[number])
    found: Json = {"traceID": trace_texts(traces.ids.slice(number, 1))[0]}
    service = NO_ROOT if root < 0 else _text(traces, _SERVICE, root)
    if service:
        found["rootServiceName"] = service
    if root >= 0 and (name := _text(traces, _NAME, root)):
        found["rootTraceName"] = name
    found["startTimeUnixNano"] = str(start)
    if took_ms:
        found["durationMs"] = min(took_ms, 2**32 - 1)
    return found


def _trace(part: FoundTraces, number: int, fields: list[Field], most_spans: int) -> Json:
    found = _summary(part.traces, number)
    numbers = np.flatnonzero(part.sets.trace_of_set == number).tolist()
    sets = [_spanset(part, each, fields, most_spans) for each in numbers]
    return found | {"spanSet": sets[0], "spanSets": sets, "serviceStats": _service_stats(part.traces, number)}


def _spanset(part: FoundTraces, number: int, fields: list[Field], most_spans: int) -> Json:
    rows = part.sets.rows[part.sets.set_of_row == number]
    found: Json = {"spans": _spans(part.traces, rows[:most_spans], fields), "matched": len(rows)}
    attributes = [
        {"key": each.name, "value": value_json(each.values.static(number))} for each in part.sets.attributes
    ]
    return found | ({"attributes": attributes} if attributes else {})


def _spans(traces: Traces, rows: Any, fields: list[Field]) -> list[Json]:
    ids = hex_texts(id_bytes(whole_column(traces.table, "span_id").take(rows), 8)).to_pylist()
    listed = [field for field in fields if str(field) not in _NOT_LISTED]
    found = []
    for row, span_id in zip(rows.tolist(), ids, strict=True):
        span: Json = {"spanID": span_id}
        if _NAME in fields and (name := _text(traces, _NAME, row)):
            span["name"] = name
        span["startTimeUnixNano"] = str(traces.starts[row])
        if traces.durations[row]:
            span["durationNanos"] = str(traces.durations[row])
        values = [(field.key, field_json(traces.column(field), row)) for field in listed]
        attributes = [{"key": key, "value": value} for key, value in values if value is not None]
        found.append(span | ({"attributes": attributes} if attributes else {}))
    return found


def _service_stats(traces: Traces, number: int) -> Json:
    rows = np.arange(traces.first_rows[number], traces.first_rows[number + 1])
    column = traces.column(_SERVICE)
    assert column.codes is not None, "services are a dictionary"
    used, codes = distinct_codes(column.codes[rows] + 1)
    failed = integers(whole_column(traces.table, "status_code").take(pa.array(rows)), 0) == _ERROR
    counts, errors = np.bincount(codes), np.bincount(codes[failed], minlength=len(used))
    found: Json = {}
    for code, count, error in zip(used.tolist(), counts.tolist(), errors.tolist(), strict=True):
        service = column.values.texts[code - 1].as_py() if code else ""
        found[service] = {"spanCount": count} | ({"errorCount": error} if error else {})
    return found


def _text(traces: Traces, field: Field, row: int) -> str:
    value = field_json(traces.column(field), row)
    return "" if value is None else str(value.get("stringValue", ""))
