"""Tests exemplars and federation, which show what else is known of series."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlencode

import orjson
from google.protobuf.message import Message

from frazil.engine.interface import QueryRequest
from frazil.formats.otlp.metrics import TOPIC
from frazil.formats.remote_write.messages import WriteRequest
from frazil.query.promql.api.exemplars import exemplars
from frazil.query.promql.api.federation import federate
from frazil.scan.scanner import TopicScanner
from tests.formats.remote_write.support import STALE_NUMBER, add, rows_of
from tests.query.promql.plain_context import PlainContext
from tests.query.support import World

TENANT = "team-a"
TRACE = "0123456789abcdef0123456789abcdef"


def request(path: str, *given: tuple[str, str]) -> QueryRequest:
    return QueryRequest("GET", path, {}, urlencode(given), {}, b"", (TENANT,), "prometheus")


def context(world: World, written: Message) -> PlainContext:
    world.append(TOPIC, rows_of(written, tenants=[TENANT]).batch)
    return PlainContext(world.config, TopicScanner(world.config))


def test_exemplars_of_the_series_of_a_query(tmp_path: Path) -> None:
    begin = 1_700_000_000_000
    written = WriteRequest()
    for code in ("200", "500"):
        series = add(written, (1.0, begin), (2.0, begin + 1000), name="hits_total", code=code)
        exemplar = series.exemplars.add(value=0.25, timestamp=begin + 500)
        exemplar.labels.add(name="trace_id", value=TRACE)
        exemplar.labels.add(name="user", value="u1")
    with World(tmp_path) as world:
        asked = context(world, written)

        def ask(query: str, end: int) -> list[dict[str, object]]:
            given = [("query", query), ("start", str(begin // 1000)), ("end", str(end // 1000))]
            reply = exemplars(request("query_exemplars", *given), asked)
            found: list[dict[str, object]] = orjson.loads(b"".join(reply.body))["data"]
            return found

        assert ask('sum(rate(hits_total{code="500"}[5m]))', begin + 1000) == [
            {
                "seriesLabels": {"__name__": "hits_total", "code": "500"},
                "exemplars": [
                    {"labels": {"trace_id": TRACE, "user": "u1"}, "value": "0.25", "timestamp": begin / 1000 + 0.5}
                ],
            }
        ]
        assert len(ask("hits_total or up", begin + 1000)) == 2
        assert ask("hits_total", begin) == []


def test_federation_shows_the_newest_sample_of_each_series(tmp_path: Path) -> None:
    now = int(time.time()) * 1000
    written = WriteRequest()
    add(written, (1.0, now - 60_000), (2.5, now - 30_000), name="load", instance="a", path='/"x"')
    add(written, (1.0, now - 60_000), (STALE_NUMBER, now - 30_000), name="load", instance="gone")
    add(written, (7.0, now - 10_000), name="my.metric")
    add(written, (7.0, now - 3_600_000), name="old")
    with World(tmp_path) as world:
        reply = federate(
            request("federate", ("match[]", "load"), ("match[]", '{__name__=~".+"}')), context(world, written)
        )
    assert b"".join(reply.body).decode().splitlines() == [
        "# TYPE load untyped",
        f'load{{instance="a",path="/\\"x\\""}} 2.5 {now - 30_000}',
        "# TYPE my_metric untyped",
        f'my_metric{{instance=""}} 7 {now - 10_000}',
    ]
