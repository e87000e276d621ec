"""Tests `POST /sql` on a real server: answers, refusals, limits, and rows that only this process has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.app.parts.query import QueryPart
from frazil.config.model import Config
from frazil.ops.health import HealthRegistry
from frazil.query.sql.limits import MAX_BYTES
from frazil.web.answers import ARROW_STREAM
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer
from tests.query.support import World, rows

_ENDLESS = "SELECT sum(a.range * b.range) FROM range(100000000) AS a, range(100000000) AS b"
_SECONDS = 170.0

Post = Callable[..., Coroutine[Any, Any, httpx.Response]]


class Served(NamedTuple):
    post: Post
    log: LogPart
    metrics: CollectorRegistry


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Served]:
    metrics = CollectorRegistry()
    log = LogPart(config, metrics)
    part = QueryPart(config, metrics, log)
    server = HttpServer(create_app(HealthRegistry(), metrics, part.endpoints), "127.0.0.1", 0)
    await log.start()
    await part.start()
    await server.start()
    async with httpx.AsyncClient(timeout=_SECONDS) as client:

        async def post(text: str | bytes, **headers: str) -> httpx.Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.post(f"{server.url}/sql", content=text, headers=named)

        try:
            yield Served(post, log, metrics)
        finally:
            await part.stop()
            await log.stop()
            await server.stop()


def run(scenario: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(_SECONDS):
            await scenario

    asyncio.run(bounded())


def sql(**limits: Any) -> dict[str, Any]:
    return {"max_concurrent": 1, **limits}


def test_rows_come_as_json_or_arrow_and_problems_with_their_reason(tmp_path: Path) -> None:
    topics = {"whose": {"tenant_column": "text"}, "kept": {"ack": "object"}}
    with World(tmp_path, sql=sql(max_rows=50), topics=topics) as world:
        world.fill("orders", rows(0, 30), moved=10, sealed=20)
        world.fill("whose", rows(0, 30), moved=10, sealed=20)
    config = world.config

    async def scenario() -> None:
        async with serving(config) as (post, log, _):
            answer = await post("SELECT id, text FROM orders WHERE id < 2 ORDER BY id")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.json() == [{"id": 0, "text": "row 0"}, {"id": 1, "text": "row 1"}]

            answer = await post("FROM orders", accept=ARROW_STREAM)
            assert answer.headers["content-type"] == ARROW_STREAM
            table = pa.ipc.open_stream(answer.content).read_all()
            assert sorted(table["id"].to_pylist()) == list(range(30))

            # These rows are in a tail that only this process has in memory.
            writer = log.log.writer("kept", rows(0, 1).schema)
            writer.submit(rows(0, 5))
            assert (await post("SELECT count(*) AS n, max(_offset) AS o FROM kept")).json() == [{"n": 5, "o": 4}]
            await asyncio.to_thread(writer.seal_all)
            writer.submit(rows(5, 5))
            assert (await post("SELECT count(*) AS n, max(_offset) AS o FROM kept")).json() == [{"n": 10, "o": 9}]

            mine = await post("SELECT id FROM whose", x_scope_orgid="row-1")
            assert mine.json() == []
            assert (await post("SELECT count(*) AS n FROM whose")).json() == [{"n": 0}]

            for text, status, said in (
                ("SELEC 1", 400, "syntax error"),
                ("SELECT * FROM order_s", 400, "Did you mean 'orders'"),
                ("SELECT current_setting('x')", 400, "not available"),
                ("FROM read_csv('/etc/passwd')", 400, "not available"),
                ("DROP TABLE orders", 400, "Only queries"),
                ("FROM range(51)", 400, "more than 50 rows (sql.max_rows)"),
                (b"SELECT '\xff'", 400, "not UTF-8"),
                ("SELECT '" + "x" * MAX_BYTES + "'", 413, "longer than"),
            ):
                answer = await post(text)
                assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text
            assert (await post("SELEC 1")).json()["column"] == 1
            assert (await post("SELECT 1", x_scope_orgid="no/slash")).status_code == 400

    run(scenario())


def test_a_query_that_cannot_be_stopped_ends_with_its_process(tmp_path: Path) -> None:
    """DuckDB would plan this query for hours."""
    with World(tmp_path, sql=sql(timeout_seconds=1)) as world:
        world.append("orders", rows(0, 30))
    config = world.config
    joined = " ".join(f"JOIN range(3) AS t{number} USING (range)" for number in range(400))

    async def scenario() -> None:
        async with serving(config) as (post, *_):
            answer = await post(f"SELECT * FROM range(3) {joined}")
            assert (answer.status_code, "sql.timeout_seconds" in answer.text) == (504, True), answer.text
            assert (await post("SELECT 1 AS one")).json() == [{"one": 1}]

    run(scenario())


def test_memory_that_duckdb_does_not_count_ends_the_process(tmp_path: Path) -> None:
    with World(tmp_path, sql=sql(max_memory_mb=32)) as world:
        world.append("orders", rows(0, 30))
    config = world.config

    async def scenario() -> None:
        async with serving(config) as (post, *_):
            answer = await post("SELECT length(repeat('x', 600000000 + id)) FROM orders")
            assert (answer.status_code, "sql.max_memory_mb" in answer.text) == (400, True), answer.text
            assert (await post("SELECT count(*) AS n FROM orders")).json() == [{"n": 30}]

    run(scenario())


def test_queries_wait_their_turn_and_are_told_when_it_does_not_come(tmp_path: Path) -> None:
    with World(tmp_path, sql=sql(timeout_seconds=4)) as world:
        world.append("orders", rows(0, 30))
    config = world.config

    async def scenario() -> None:
        async with serving(config) as (post, *_):
            assert (await post("SELECT 1")).status_code == 200
            answers = await asyncio.gather(*(post(_ENDLESS) for _ in range(3)))
            statuses = sorted(answer.status_code for answer in answers)
            assert statuses[-1] == 504
            assert 429 in statuses
            (busy, *_) = [answer for answer in answers if answer.status_code == 429]
            assert busy.headers["retry-after"]
            assert "sql.max_concurrent" in busy.json()["error"]
            assert (await post("SELECT 1 AS one")).json() == [{"one": 1}]

    run(scenario())


def test_a_query_ends_when_its_client_goes(tmp_path: Path) -> None:
    with World(tmp_path, sql=sql(timeout_seconds=600)) as world:
        world.append("orders", rows(0, 30))
    config = world.config

    async def scenario() -> None:
        async with serving(config) as (post, _, metrics):
            assert (await post("SELECT 1")).status_code == 200
            asked = asyncio.create_task(post(_ENDLESS))
            while not metrics.get_sample_value("frazil_query_running"):
                await asyncio.sleep(0.01)
            asked.cancel()
            while metrics.get_sample_value("frazil_query_running"):
                await asyncio.sleep(0.01)
            assert (await post("SELECT 1 AS one")).json() == [{"one": 1}]
            assert metrics.get_sample_value("frazil_query_processes") == 1

    run(scenario())


def test_a_stop_ends_running_queries(tmp_path: Path) -> None:
    with World(tmp_path, sql=sql(timeout_seconds=600)) as world:
        world.append("orders", rows(0, 30))
    config = world.config

    async def scenario() -> None:
        async with serving(config) as (post, _, metrics):
            assert (await post("SELECT 1")).status_code == 200
            asked = asyncio.create_task(post(_ENDLESS))
            while not metrics.get_sample_value("frazil_query_running"):
                await asyncio.sleep(0.01)
        answer = await asked
        assert answer.status_code == 503

    run(scenario())
