"""Answers what is new for a client that follows lines: the lines between two cuts of the log.

A query process answers it. It knows nothing of the client, which tells with each question how far it is, so that
between two pieces nothing is kept and nobody occupies a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError
from frazil.formats.otlp.logs import TOPIC
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.query.logql.api.parameters import limit_of, parameters_of, span_of
from frazil.query.logql.api.queries import CATEGORIZE, check_entries, encoding_flags
from frazil.query.logql.api.rendering import other_labels
from frazil.query.logql.api.replies import JSON
from frazil.query.logql.api.tenants import settings_of, source_of
from frazil.query.logql.engine import Engine
from frazil.query.logql.log_results import Entry
from frazil.query.logql.parse.log_tree import LogQuery
from frazil.query.logql.parse.parser import parse
from frazil.query.logql.source.log_rows import LogRows
from frazil.scan.interface import ScanRequest
from frazil.scan.predicates.tree import And, Column, Comparison, Or, Predicate

POSITIONS = "x-frazil-positions"
ANSWER = "frazil.query.logql.api.tail.pieces:piece"
MOST_LINES = 2000
"""A client gets this many lines of a piece at most. It is told which others were dropped."""
MOST_DROPPED = 1000
"""It is told of so many of them."""
FRAME_LINES = 100
ONLY_LOGS = "only log selector is supported"
_FOR_EVER_NS = 2**63 - 1

Positions = Mapping[int, int]


def piece(request: QueryRequest, context: QueryContext) -> Reply:
    """The body of the request has the positions that the client has reached; it is empty in the beginning. The answer
    has one frame a line, and the new positions in a header."""
    parameters = parameters_of(replace(request, body=b""))
    text = parameters.one("query") or ""
    if not isinstance(parse(text), LogQuery):
        raise QueryError(ONLY_LOGS)
    source = source_of(request, context)
    now = _positions(source)
    if request.body:
        before = {int(partition): offset for partition, offset in orjson.loads(request.body).items()}
        entries, dropped = _new(text, replace(source, where=_between(before, now)), context)
    else:
        limit = limit_of(parameters)
        check_entries(limit, settings_of(context.config, request.tenants).max_entries)
        source = replace(source, where=_between({}, now))
        start = span_of(parameters).start_ns
        entries, dropped = Engine(source, context).logs(text, start, _FOR_EVER_NS, limit).entries, []
    flags = encoding_flags(request)
    body = b"\n".join(_frames(entries[::-1], dropped[::-1], flags))
    positions = orjson.dumps({str(partition): offset for partition, offset in now.items()})
    return Reply(200, {"content-type": JSON, POSITIONS: positions.decode()}, [body])


def _positions(source: LogRows) -> Positions:
    """Returns where the log ends."""
    scan = source.scan(ScanRequest(TOPIC, source.tenants, columns=(), limit=0))
    return {} if scan is None else scan.offsets


def _between(before: Positions, now: Positions) -> Predicate:
    partition, offset = Column(PARTITION), Column(OFFSET)
    return Or(
        tuple(
            And(
                (
                    Comparison(partition, "==", number),
                    Comparison(offset, ">=", before.get(number, 0)),
                    Comparison(offset, "<", end),
                )
            )
            for number, end in now.items()
            if before.get(number, 0) < end
        )
    )


def _new(text: str, source: LogRows, context: QueryContext) -> tuple[list[Entry], list[Entry]]:
    """Returns the newest lines, and those that are too many."""
    if source.where == Or(()):
        return [], []
    found = Engine(source, context).logs(text, 0, _FOR_EVER_NS, MOST_LINES + MOST_DROPPED).entries
    return found[:MOST_LINES], found[MOST_LINES:]


def _frames(entries: list[Entry], dropped: list[Entry], flags: tuple[str, ...]) -> Iterator[bytes]:
    """Yields frames with the oldest lines first. Each line has a stream of its own, as in Loki."""
    told: list[dict[str, Any]] = [
        {"timestamp": str(entry.time_ns), "labels": dict(entry.labels.merged())} for entry in dropped
    ]
    for start in range(0, len(entries), FRAME_LINES):
        some = entries[start : start + FRAME_LINES]
        frame: dict[str, Any] = {"streams": [_stream(entry, CATEGORIZE in flags) for entry in some]}
        if told:
            frame["dropped_entries"] = told
            told = []
        if flags:
            frame["encodingFlags"] = flags
        yield orjson.dumps(frame)


def _stream(entry: Entry, categorized: bool) -> dict[str, Any]:
    labels, value = entry.labels, [str(entry.time_ns), entry.line]
    if categorized:
        return {"stream": dict(labels.stream), "values": [[*value, other_labels(labels)]]}
    return {"stream": dict(labels.merged()), "values": [value]}
