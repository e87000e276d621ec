"""Tests queries in real processes: answers, limits, turns, and processes that end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.engine.exchange import Exchange
from frazil.engine.interface import QueryRequest
from frazil.engine.limits import Limit, Solo, query_limits
from frazil.engine.room import QueryRoom
from frazil.engine.tail_transfer import Views
from frazil.errors import (
    FrazilError,
    QueriesBusy,
    QueryError,
    QueryProcessDied,
    QueryTimeout,
    QueryTooLarge,
    ShutdownError,
)
from tests.engine import answers
from tests.engine.answers import PIECE
from tests.query.support import World, rows

ROOT = Path(__file__).parents[2]


class Told(NamedTuple):
    body: bytes
    headers: dict[str, str]


class Asking:
    """Asks a room as tests do."""

    def __init__(self, room: QueryRoom, metrics: CollectorRegistry) -> None:
        self.room = room
        self.metrics = metrics

    async def begin(
        self, name: str, body: bytes = b"", tenant: str = "a", port: str = "loki", **parameters: str
    ) -> Exchange:
        request = QueryRequest("GET", f"/{name}", parameters, "", {}, body, (tenant,), port)
        return await self.room.ask(f"{answers.__name__}:{name}", request)

    async def whole(self, name: str, body: bytes = b"", tenant: str = "a", port: str = "loki") -> Told:
        reply = await self.begin(name, body, tenant, port)
        return Told(b"".join([piece async for piece in reply]), dict(reply.headers))

    def failures(self, reason: str, port: str = "loki") -> float:
        labels = {"port": port, "reason": reason}
        return self.metrics.get_sample_value("frazil_query_failures_total", labels) or 0.0


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")


@asynccontextmanager
async def room(folder: Path, solo: str | None = None, **settings: Any) -> AsyncIterator[Asking]:
    config = Config.model_validate({"data_dir": folder, "query": settings})
    metrics = CollectorRegistry()
    alone = {f"{answers.__name__}:{solo}": Solo(query_limits(config, ()), Limit(1, "sql.max_concurrent"))}
    opened = QueryRoom(config, lambda _: {}, metrics, solo=alone if solo else None)
    try:
        yield Asking(opened, metrics)
    finally:
        await opened.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await scenario

    asyncio.run(bounded())


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_answers_and_errors_come_as_they_were_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path) as asking:
            told = await asking.whole("echo", b"\0hello", tenant="me")
            assert (told.body, told.headers["tenants"]) == (b"\0hello", "me")

            with pytest.raises(QueryError, match="no such thing") as caught:
                await asking.whole("refuse")
            assert (caught.value.line, caught.value.column) == (3, 7)
            assert asking.failures("invalid") == 1

            reply = aiter(await asking.begin("fail_late"))
            assert await anext(reply) == PIECE
            with pytest.raises(QueryError, match="It broke"):
                await anext(reply)

            with pytest.raises(FrazilError, match="ValueError"):
                await asking.whole("hold", b"no number")
            with pytest.raises(FrazilError, match="AttributeError"):
                await asking.whole("unknown")

            first, again = await asking.whole("remember", b"k"), await asking.whole("remember", b"k")
            assert first == again
            assert asking.metrics.get_sample_value("frazil_query_cache_total", {"result": "hit"}) == 1

    run(scenario())


def test_scans_see_all_rows_and_are_counted(tmp_path: Path) -> None:
    """Rows are in table, segments, a WAL and the memory of this process."""
    with World(tmp_path, topics={"kept": {"ack": "object", "linger_ms": 3_600_000}}) as world:
        world.fill("orders", rows(0, 30), moved=10, sealed=20)
        world.append("kept", rows(0, 7))
        config = world.config.model_copy(update={"query": world.config.query.model_copy(update={"max_read_mb": 1})})

        def tails_of(topics: Iterable[str]) -> Views:
            kept = {0: world.writer("kept").tail.view()}
            return {topic: kept if topic == "kept" else {} for topic in topics}

        async def scenario() -> None:
            opened = QueryRoom(config, tails_of, CollectorRegistry())
            try:
                asking = Asking(opened, CollectorRegistry())
                for topic, count in (("orders", 30), ("kept", 7)):
                    reply = await asking.begin("scan", topic=topic)
                    assert reply.headers["rows"] == str(count)
                    assert [piece async for piece in reply] == []
                    assert reply.statistics.rows_read == count
            finally:
                await opened.close()

        run(scenario())


def test_an_answer_says_that_the_tail_is_elsewhere(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.append("orders", rows(0, 5))
        world.seal("orders")
        elsewhere = {"data_dir": tmp_path / "elsewhere", "store": {"url": str(world.config.data_dir / "store")}}

        async def scenario() -> None:
            for config, found in ((world.config, None), (Config.model_validate(elsewhere), "false")):
                opened = QueryRoom(config, lambda _: {}, CollectorRegistry())
                try:
                    reply = await Asking(opened, CollectorRegistry()).begin("scan", topic="orders")
                    assert (reply.headers["rows"], reply.headers.get("x-frazil-complete")) == ("5", found)
                    await reply.aclose()
                finally:
                    await opened.close()

        run(scenario())


def test_large_answers_are_made_as_they_are_read(tmp_path: Path) -> None:
    count, file = 400, tmp_path / "made"

    async def scenario() -> None:
        async with room(tmp_path) as asking:
            reply = await asking.begin("many", f"{count} {file}".encode())
            await asyncio.sleep(0.3)
            assert int(file.read_text()) < count / 4
            size = 0
            async for piece in reply:
                size += len(piece)
            assert size == count * len(PIECE)

    run(scenario())


def test_a_query_that_nobody_waits_for_is_stopped_and_its_process_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, processes=1, threads=1) as asking:
            process = (await asking.whole("echo")).headers["process"]
            working = tmp_path / "working"
            asked = asyncio.create_task(asking.whole("work", str(working).encode()))
            await until(working.exists)
            asked.cancel()
            await until(lambda: not working.exists())

            reply = await asking.begin("many", f"1000 {tmp_path / 'made'}".encode())
            await anext(aiter(reply))
            await reply.aclose()
            assert (await asking.whole("echo")).headers["process"] == process
            assert int((tmp_path / "made").read_text()) < 1000

    run(scenario())


def test_limits_are_errors_that_name_their_setting(tmp_path: Path) -> None:
    tenants = {"small": {"max_memory_mb": 1, "max_read_mb": 1, "timeout_seconds": 0.2}}

    async def scenario() -> None:
        async with room(tmp_path, tenants=tenants, memory_mb=8, max_memory_mb=16, max_read_mb=2) as asking:
            assert (await asking.whole("hold", b"2000000")).body == b"held"
            with pytest.raises(QueryTooLarge, match=r"1 MiB of memory \(query.tenants.small.max_memory_mb\)"):
                await asking.whole("hold", b"2000000", tenant="small")
            with pytest.raises(QueryTooLarge, match=r"4 MiB of memory \(half of query.memory_mb\)"):
                await asking.whole("hold", b"5000000")
            with pytest.raises(QueryTooLarge, match=r"more than 2 MiB \(query.max_read_mb\)"):
                await asking.whole("read", b"3000000")
            with pytest.raises(QueryTooLarge, match=r"query\.tenants\.small\.max_read_mb"):
                await asking.whole("read", b"1500000", tenant="small")
            with pytest.raises(QueryTimeout, match=r"0.2 seconds \(query.tenants.small.timeout_seconds\)"):
                await asking.whole("work", str(tmp_path / "w").encode(), tenant="small")
            assert (asking.failures("too_large"), asking.failures("timeout")) == (4, 1)

    run(scenario())


def test_a_query_that_does_not_stop_takes_only_itself_along(tmp_path: Path) -> None:
    """It has its process killed. What else the process answered is answered by another."""
    tenants = {"short": {"timeout_seconds": 0.3}}

    async def scenario() -> None:
        async with room(tmp_path, tenants=tenants, processes=2, threads=2) as asking:
            file = tmp_path / "go"
            bystander = asyncio.create_task(asking.whole("wait_for_file", str(file).encode()))
            with pytest.raises(QueryTimeout):
                await asking.whole("hang", tenant="short")
            await asyncio.sleep(0.3)
            file.touch()
            await bystander
            assert (await asking.whole("echo", b"next")).body == b"next"

    run(scenario())


def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, processes=2) as asking:
            file = tmp_path / "go"
            bystander = asyncio.create_task(asking.whole("wait_for_file", str(file).encode()))
            with pytest.raises(QueryProcessDied) as caught:
                await asking.whole("die")
            assert caught.value.retryable
            file.touch()
            await bystander
            assert (await asking.whole("echo", b"next")).body == b"next"
            assert asking.failures("process_died") == 1

    run(scenario())


def test_memory_that_nobody_counts_ends_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, processes=1, max_memory_mb=16) as asking:
            with pytest.raises(QueryTooLarge, match=r"query\.max_memory_mb"):
                await asking.whole("take_memory")
            assert (await asking.whole("echo", b"next")).body == b"next"

    run(scenario())


def test_queries_wait_their_turn_and_not_without_bound(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"processes": 1, "threads": 2, "max_queue": 2, "timeout_seconds": 1.0}

    async def scenario() -> None:
        async with room(tmp_path, None, **limits, tenants={"b": {"max_concurrent": 1}}) as asking:
            await asking.whole("echo")
            file = tmp_path / "go"
            body = str(file).encode()
            running = [asyncio.create_task(asking.whole("wait_for_file", body, "b")) for _ in range(3)]
            await asyncio.sleep(0.05)
            with pytest.raises(QueriesBusy, match=r"2 queries wait .*query.max_queue"):
                await asking.whole("echo", tenant="b")
            # One of them runs, so there is room for another tenant.
            assert (await asking.whole("echo", b"c", tenant="c")).body == b"c"
            file.touch()
            await asyncio.gather(*running)

            hanging = [asyncio.create_task(asking.whole("hang", tenant=name)) for name in "xy"]
            await asyncio.sleep(0.05)
            started = time.monotonic()
            with pytest.raises((QueriesBusy, QueryTimeout)):
                await asking.whole("hang", tenant="z")
            assert time.monotonic() - started < 10
            for each in await asyncio.gather(*hanging, return_exceptions=True):
                assert isinstance(each, QueryTimeout)

    run(scenario())


def test_processes_are_started_when_queries_wait_and_end_when_they_are_idle(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, processes=2, threads=1, idle_seconds=0.5) as asking:
            await asking.room.warm()
            assert len(asking.room.processes) == 1
            file = tmp_path / "go"
            asked = [asyncio.create_task(asking.whole("wait_for_file", str(file).encode())) for _ in range(3)]
            await until(lambda: len(asking.room.processes) == 2)
            file.touch()
            told = await asyncio.gather(*asked)
            assert 1 <= len({each.headers["process"] for each in told}) <= 2
            await until(lambda: not len(asking.room.processes))
            assert (await asking.whole("echo", b"next")).body == b"next"

    run(scenario())


def test_queries_go_where_the_caches_know_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, processes=2, threads=1, warm_processes=2) as asking:
            await asking.room.warm()
            file = tmp_path / "go"
            ports = ("loki", "prometheus")
            asked = [
                asyncio.create_task(asking.whole("wait_for_file", str(file).encode(), port=each)) for each in ports
            ]
            await asyncio.sleep(0.05)
            file.touch()
            at = {port: (await each).headers["process"] for port, each in zip(ports, asked, strict=True)}
            assert len(set(at.values())) == 2
            for port in (*ports, *reversed(ports)):
                assert (await asking.whole("echo", port=port)).headers["process"] == at[port]

    run(scenario())


def test_an_answer_may_have_a_process_to_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, solo="wait_for_file", processes=2, threads=2) as asking:
            file = tmp_path / "go"
            alone = asyncio.create_task(asking.whole("wait_for_file", str(file).encode()))
            await until(lambda: len(asking.room.processes) == 1)
            other = await asking.whole("echo")
            second = asyncio.create_task(asking.whole("wait_for_file", str(file).encode()))
            await asyncio.sleep(0.1)
            assert not second.done()
            file.touch()
            assert (await alone).headers["process"] != other.headers["process"]
            await second

    run(scenario())


def test_a_stop_ends_queries_that_run_and_that_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with room(tmp_path, processes=1, threads=1) as asking:
            running = asyncio.create_task(asking.whole("work", str(tmp_path / "working").encode()))
            await until((tmp_path / "working").exists)
            waiting = asyncio.create_task(asking.whole("echo"))
            await asyncio.sleep(0.01)
        for task in (running, waiting):
            with pytest.raises(ShutdownError):
                await task
        with pytest.raises(ShutdownError):
            await asking.whole("echo")

    run(scenario())


def test_slow_queries_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with room(tmp_path, slow_seconds=0.001) as asking:
            await asking.whole("echo", b"what is slow")

    run(scenario())
    (record,) = [each for each in caplog.records if each.message == "a query took long"]
    assert (record.__dict__["path"], record.__dict__["query"]) == ("/echo", "what is slow")
