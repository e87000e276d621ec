"""Answers which patterns the newest lines of some streams have, and how often each occurs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.logql.api.line_templates import LineTemplates, masked
from frazil.query.logql.api.parameters import SECOND_NS, checked_span, parameters_of, step_of
from frazil.query.logql.api.queries import check_length
from frazil.query.logql.api.replies import success
from frazil.query.logql.api.selectors import matchers_of
from frazil.query.logql.api.tenants import settings_of, source_of
from frazil.query.logql.blocks import LogBlock, Selection
from frazil.query.logql.source.label_rules import DETECTED_LEVEL

MOST_LINES = 500_000
"""Older lines than these are not looked at."""
MOST_PATTERNS = 300
_BUCKET_NS = 10 * SECOND_NS

Counts = Counter[tuple[int, str, int]]
"""Counts lines by the number of their template, their level and the start of their bucket in seconds."""


def patterns(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = parameters_of(request)
    span = checked_span(parameters)
    check_length(span, None, settings_of(context.config, request.tenants))
    step = -(-step_of(parameters, span) // _BUCKET_NS) * _BUCKET_NS
    selection = Selection(
        span.start_ns,
        span.end_ns,
        matchers_of(parameters.one("query")),
        labels_wanted=frozenset((DETECTED_LEVEL,)),
        order="newest first",
    )
    templates, counts, lines = LineTemplates(), Counts(), 0
    for block in source_of(request, context).by_units(selection):
        context.check()
        _count(block, step, templates, counts)
        lines += block.rows
        if lines >= MOST_LINES:
            break
    return success(_shown(templates, counts))


def _count(block: LogBlock, step_ns: int, templates: LineTemplates, counts: Counts) -> None:
    level = block.metadata(DETECTED_LEVEL) if DETECTED_LEVEL in block.metadata_names() else None
    frame = pl.DataFrame(
        {
            "text": masked(block.lines),
            "level": np.zeros(block.rows, np.int32) if level is None else level.codes,
            "bucket": block.times_ns // step_ns * (step_ns // SECOND_NS),
        }
    )
    levels = ["", *level.texts] if level is not None else [""]
    for text, code, bucket, count in frame.group_by("text", "level", "bucket").len().iter_rows():
        name = levels[code + 1] if level is not None else ""
        number = templates.number_of(text, name)
        if number is not None:
            counts[number, name, bucket] += count


def _shown(templates: LineTemplates, counts: Counts) -> list[dict[str, object]]:
    """Returns the most frequent patterns."""
    samples: dict[tuple[str, str], Counter[int]] = {}
    for (number, level, bucket), count in counts.items():
        samples.setdefault((templates.text(number), level), Counter())[bucket] += count
    chosen = sorted(samples, key=lambda each: (-samples[each].total(), each))[:MOST_PATTERNS]
    return [
        {"pattern": text, "level": level, "samples": sorted(map(list, samples[text, level].items()))}
        for text, level in chosen
    ]
