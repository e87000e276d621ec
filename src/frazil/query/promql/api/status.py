"""Answers what the server is, how it is set, and what series it has."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections import Counter
from datetime import UTC, datetime

import numpy as np

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.promql.api.envelope import data, with_errors
from frazil.query.promql.api.parameters import parameters, text
from frazil.query.promql.api.settings import label_rules
from frazil.query.promql.problems import InvalidQuery
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.storage.series_listing import SeriesListing
from frazil.version import __version__

SPEAKS = "3.5.0"
"""Clients read from the version of Prometheus what they may ask."""
_STARTED = time.time()
_DAY_MS = 86_400_000
_MOST_ENTRIES = 10_000


@with_errors
def buildinfo(request: QueryRequest, context: QueryContext) -> Reply:
    return data(
        {
            "version": SPEAKS,
            "revision": f"frazil-{__version__}",
            "branch": "HEAD",
            "buildUser": "frazil",
            "buildDate": "",
            "goVersion": "",
        }
    )


@with_errors
def runtimeinfo(request: QueryRequest, context: QueryContext) -> Reply:
    started = datetime.fromtimestamp(_STARTED, UTC).isoformat().replace("+00:00", "Z")
    return data(
        {
            "startTime": started,
            "CWD": "",
            "hostname": socket.gethostname(),
            "serverTime": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "reloadConfigSuccess": True,
            "lastConfigTime": started,
            "corruptionCount": 0,
            "goroutineCount": 0,
            "GOMAXPROCS": os.cpu_count() or 1,
            "GOMEMLIMIT": context.config.query.memory_mb * 1024 * 1024,
            "GOGC": "",
            "GODEBUG": f"python {platform.python_version()}",
            "storageRetention": "",
        }
    )


@with_errors
def flags(request: QueryRequest, context: QueryContext) -> Reply:
    own = context.config.prometheus.queries
    return data(
        {
            "query.lookback-delta": f"{own.lookback_seconds:g}s",
            "query.max-concurrency": str(context.config.query.max_concurrent),
            "query.max-samples": str(own.max_samples),
            "query.timeout": f"{context.config.query.timeout_seconds:g}s",
            "web.enable-admin-api": "false",
            "web.enable-lifecycle": "false",
            "web.enable-remote-write-receiver": "true",
            "web.enable-otlp-receiver": "true",
        }
    )


@with_errors
def config(request: QueryRequest, context: QueryContext) -> Reply:
    own = context.config.prometheus.queries
    return data({"yaml": f"global:\n  evaluation_interval: {own.subquery_step_seconds:g}s\n"})


@with_errors
def walreplay(request: QueryRequest, context: QueryContext) -> Reply:
    return data({"min": 0, "max": 0, "current": 0})


@with_errors
def no_list(request: QueryRequest, context: QueryContext) -> Reply:
    return data([])


@with_errors
def tsdb(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers which names, labels and pairs the series of the last day have most of."""
    given = text(parameters(request), "limit") or "10"
    if not given.isdecimal() or len(given) > 19 or not 1 <= int(given) <= _MOST_ENTRIES:
        raise InvalidQuery(f"limit must be a positive number of at most {_MOST_ENTRIES}")
    now = round(time.time() * 1000)
    listing = SeriesListing(context, request.tenants, label_rules(request, context), now - _DAY_MS, None)
    found = listing.series([()])
    return data(_counts(found, int(given), now))


def _counts(found: LabelTable, most: int, now: int) -> dict[str, object]:
    names: Counter[str] = Counter()
    values: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for label, column in found.columns.items():
        counts = np.bincount(column.codes, minlength=len(column.values)).tolist()
        of_values = {text: count for text, count in zip(column.values, counts, strict=True) if text and count}
        values[label] = len(of_values)
        nbytes[label] = sum(len(text.encode()) * count for text, count in of_values.items())
        pairs.update({f"{label}={text}": count for text, count in of_values.items()})
        if label == "__name__":
            names.update(of_values)

    def listed(counter: Counter[str]) -> list[dict[str, object]]:
        return [{"name": name, "value": count} for name, count in counter.most_common(most)]

    return {
        "headStats": {
            "numSeries": found.size,
            "numLabelPairs": len(pairs),
            "chunkCount": found.size,
            "minTime": now - _DAY_MS,
            "maxTime": now,
        },
        "seriesCountByMetricName": listed(names),
        "labelValueCountByLabelName": listed(values),
        "memoryInBytesByLabelName": listed(nbytes),
        "seriesCountByLabelValuePair": listed(pairs),
    }
