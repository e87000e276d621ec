"""Answers `federate`: the newest sample of each series, as text for another Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import numpy as np

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError, RequestError
from frazil.query.promql.api.envelope import gathered
from frazil.query.promql.api.labels import selectors_of
from frazil.query.promql.api.number_texts import number_text
from frazil.query.promql.api.parameters import parameters
from frazil.query.promql.api.settings import options_of, samples_of
from frazil.query.promql.series.source import STALE_BITS, Hints, SeriesBlock

_NOT_LEGACY = re.compile(r"[^a-zA-Z0-9_:]")
_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"}
_PLAIN = {"content-type": "text/plain; charset=utf-8"}


def federate(request: QueryRequest, context: QueryContext) -> Reply:
    try:
        selectors = selectors_of(parameters(request))
    except (QueryError, RequestError) as error:
        return Reply(400, _PLAIN, [f"{error}\n".encode()])
    now = round(time.time() * 1000)
    begin = now - options_of(context).lookback_ms + 1
    source = samples_of(request, context)
    found: dict[tuple[str, str], str] = {}
    for selector in selectors:
        for block in source.select(selector, begin, now, Hints(begin, now)):
            found.update(_newest(block))
    return Reply(200, _TEXT, gathered(_families(found)))


def _newest(block: SeriesBlock) -> Iterator[tuple[tuple[str, str], str]]:
    """Yields the newest float of each series. Native histograms have no form in text."""
    floats = block.floats.ragged()
    assert floats.offsets is not None
    counts = np.diff(floats.offsets)
    for row, labels in enumerate(block.labels.rows()):
        if not counts[row]:
            continue
        at = int(floats.offsets[row + 1]) - 1
        value = np.float64(floats.values[at])
        if value.view(np.int64) == STALE_BITS:
            continue
        name = _legacy(labels.pop("__name__", ""))
        labels.setdefault("instance", "")
        shown = ",".join(f'{_legacy(key)}="{_escaped(text)}"' for key, text in sorted(labels.items()))
        yield (name, shown), f"{number_text(float(value))} {int(floats.times[at])}"


def _families(found: dict[tuple[str, str], str]) -> Iterator[bytes]:
    before = None
    for (name, labels), sample in sorted(found.items()):
        if name != before:
            yield f"# TYPE {name} untyped\n".encode()
            before = name
        yield f"{name}{{{labels}}} {sample}\n".encode()


def _legacy(name: str) -> str:
    found = _NOT_LEGACY.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
