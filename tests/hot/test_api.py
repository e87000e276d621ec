from __future__ import annotations

import asyncio
import base64
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from frazil.app.parts.hot import HotPart
from frazil.app.parts.log import LogPart
from frazil.config.model import Config
from frazil.config.sections.kafka import FormatConfig
from frazil.hot.query_threads import COLD_THREADS, COLD_WAITING
from frazil.log.writer.writer import PartitionWriter
from frazil.ops.health import HealthRegistry
from frazil.ops.metrics import create_registry
from frazil.scan.lookup.cold_lookup import ColdLookup
from frazil.scan.lookup.interface import RowLookup
from frazil.scan.tenants import Tenant
from frazil.web.answers import ARROW_STREAM
from frazil.web.ports.operations import create_app
from frazil.web.server import HttpServer
from tests.hot.support import TOPIC, config_of, records
from tests.ops.support import run


class Served:
    """Has a log with a hot buffer, and a client that asks it over HTTP."""

    def __init__(self, hot: HotPart, log: LogPart, client: httpx.AsyncClient) -> None:
        self.hot = hot
        self.log = log.log
        self.client = client

    async def append(self, batch: pa.RecordBatch, partition: int = 0) -> PartitionWriter:
        """Appends without sealing, and waits until the records are visible."""
        writer = await asyncio.to_thread(self.log.writer, TOPIC, batch.schema, partition=partition)
        await asyncio.to_thread(writer.submit, batch)
        while (
            buffered := self.hot.hot.buffer.topic(TOPIC).get(partition)
        ) is None or buffered.contents.end < writer.next_offset:
            await asyncio.sleep(0.002)
        return writer

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=headers)

    async def rows(self, path: str, **headers: str) -> list[dict[str, object]]:
        answer = await self.get(path, **headers)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, object]] = answer.json()
        return found


def serving(config: Config, use: Callable[[Served], Awaitable[None]], cold: RowLookup | None = None) -> None:
    async def work() -> None:
        metrics = create_registry()
        log = LogPart(config, metrics)
        hot = HotPart(config, log, metrics, cold)
        server = HttpServer(create_app(HealthRegistry(), metrics, hot.endpoints), "127.0.0.1", 0)
        await server.start()
        await log.start()
        await hot.start()
        try:
            async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
                await use(Served(hot, log, client))
        finally:
            await hot.stop()
            await log.stop()
            await server.stop()

    run(work())


AWKWARD = [
    b"plain",
    b"a/b//c/",
    b"100%",
    b"%2F",
    b"?x=1#y",
    b"\xc3\xa9 \xf0\x9f\xa7\x8a",
    b"\xff\x00\xfe",
    b"",
    b"..",
]


def test_keys_of_all_kinds_are_found(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.append(records(range(len(AWKWARD)), AWKWARD))
        for offset, key in enumerate(AWKWARD):
            spellings = [
                f"key/{quote(key, safe='')}" if key != b".." else "key/%2E%2E",
                f"key/{key.hex()}?encoding=hex",
                f"key/{quote(base64.b64encode(key), safe='')}?encoding=base64",
                f"key/{base64.urlsafe_b64encode(key).decode().rstrip('=')}?encoding=base64",
            ]
            for spelling in spellings:
                answer = await served.get(f"/hot/{TOPIC}/{spelling}")
                assert answer.status_code == 200, (spelling, answer.text)
                assert answer.json()["_kafka_offset"] == offset, spelling
        assert (await served.get(f"/hot/{TOPIC}/key/a/b//c/")).json()["_kafka_offset"] == 1

    serving(config_of(tmp_path), use)


def test_a_row_as_json_and_as_arrow(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        batch = records([2**60], [b"k"], [None], partition=3, times=[1_700_000_000_123])
        await served.append(batch, partition=3)
        expected = {
            "_kafka_key": "aw==",
            "_kafka_headers": None,
            "_kafka_timestamp": "2023-11-14T22:13:20.123000Z",
            "_kafka_timestamp_type": 0,
            "_kafka_partition": 3,
            "_kafka_offset": 2**60,
            "value": None,
            "_log_partition": 3,
            "_offset": 0,
        }
        answer = await served.get(f"/hot/{TOPIC}/3/{2**60}")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == expected, "a record without a value is an answer"
        assert await served.rows(f"/hot/{TOPIC}/3?from={2**60}&to={2**61}") == [expected]
        assert await served.rows(f"/hot/{TOPIC}?limit=5") == [expected]
        stream = await served.get(f"/hot/{TOPIC}/key/k", accept=f"{ARROW_STREAM}, application/json;q=0.5")
        assert stream.headers["content-type"] == ARROW_STREAM
        table = pa.ipc.open_stream(stream.content).read_all()
        row = served.hot.hot.query_by_key(TOPIC, b"k")
        assert row is not None
        assert table.equals(row)
        assert (await served.get(f"/hot/{TOPIC}/key/k?raw=true")).json()["_kafka_value"] is None

    serving(config_of(tmp_path), use)


def test_ranges_are_whole_or_say_what_is_missing(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.append(records([0, 2, 4]))
        writer = await served.append(records([10, 11, 12]))
        first = await served.get(f"/hot/{TOPIC}/0?from=1&to=12&limit=2")
        assert [row["_kafka_offset"] for row in first.json()] == [2, 4]
        assert first.headers["x-frazil-next-offset"] == "10"
        rest = await served.get(f"/hot/{TOPIC}/0?from=10&to=12&limit=2")
        assert [row["_kafka_offset"] for row in rest.json()] == [10, 11]
        assert "x-frazil-next-offset" not in rest.headers
        await asyncio.to_thread(writer.seal_all)
        buffered = served.hot.hot.buffer.topic(TOPIC)[0]
        while buffered.contents.sealed < 6:
            await asyncio.sleep(0.002)
        served.hot.hot.buffer.expire(2**62)
        assert await served.rows(f"/hot/{TOPIC}/0?from=13") == [], "nothing is missing: it has not come yet"
        await served.append(records([20]))
        missing = await served.get(f"/hot/{TOPIC}/0?from=4")
        assert missing.status_code == 404
        assert (missing.json()["first_offset"], missing.json()["cold"]) == (20, True)

    serving(config_of(tmp_path), use)


UNANSWERED = [
    ("/hot/unknown/key/k", 404, "does not exist"),
    ("/hot/unknown", 404, "does not exist"),
    ("/hot/un%20known/0/1", 400, "cannot be a topic"),
    (f"/hot/{TOPIC}/key/nobody", 404, "no record with this key."),
    (f"/hot/{TOPIC}/0/99", 404, "no record of offset 99"),
    (f"/hot/{TOPIC}/9?from=0", 404, "no record of partition 9 is in memory (partitions: 0)"),
    (f"/hot/{TOPIC}/x/1", 400, "partition is a number"),
    (f"/hot/{TOPIC}/0/-1", 400, "offset is a number"),
    (f"/hot/{TOPIC}/0/99999999999999999999", 400, "offset is a number"),
    (f"/hot/{TOPIC}/0?from=1e3", 400, "from is a number"),
    (f"/hot/{TOPIC}?limit=0", 400, "limit is a number from 1 to"),
    (f"/hot/{TOPIC}?limit=1000000", 400, "limit is a number"),
    (f"/hot/{TOPIC}?cold=true", 400, "'cold' is not understood here"),
    (f"/hot/{TOPIC}/key/k1?cold=perhaps", 400, "cold is true or false"),
    (f"/hot/{TOPIC}/key/k1?encoding=hex", 400, "not hex"),
    (f"/hot/{TOPIC}/key/k1~?encoding=base64", 400, "not base64"),
    (f"/hot/{TOPIC}/key/k1?encoding=rot13", 400, "encoding is base64 or hex"),
    (f"/hot/{TOPIC}/key/nobody?cold=true", 400, "no reader of tables"),
]


@pytest.mark.parametrize(("path", "status", "said"), UNANSWERED)
def test_what_cannot_be_answered_says_why(
    asked: Callable[[str], httpx.Response], path: str, status: int, said: str
) -> None:
    answer = asked(path)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], httpx.Response]:
    """Returns the answers of one server. All are fetched at once, and then the server stops."""
    answers: dict[str, httpx.Response] = {}

    async def use(served: Served) -> None:
        await served.append(records([0, 1]))
        for path, *_ in UNANSWERED:
            answers[path] = await served.get(path)

    serving(config_of(tmp_path_factory.mktemp("asked")), use)
    return answers.__getitem__


def test_a_tenant_sees_its_own_rows_only(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("tenant", pa.string()), ("amount", pa.float64())])

    def batch(*rows: tuple[str, str | None, float]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    async def use(served: Served) -> None:
        await served.append(batch(("a", "red", 1), ("a", "blue", 2), ("b", None, 3), ("a", "default", math.nan)))
        await served.append(batch(*[("a", "green", float(i)) for i in range(30)]))

        async def amounts(path: str, **headers: str) -> list[object]:
            return [row["amount"] for row in await served.rows(path, **headers)]

        red, blue = {"x-scope-orgid": "red"}, {"X-Scope-OrgID": "blue"}
        assert (await served.get(f"/hot/{TOPIC}/key/a", **red)).json()["amount"] == 1
        assert (await served.get(f"/hot/{TOPIC}/key/a", **blue)).json()["amount"] == 2
        assert (await served.get(f"/hot/{TOPIC}/key/b", **red)).status_code == 404
        assert (await served.get(f"/hot/{TOPIC}/0/1", **blue)).json()["amount"] == 2
        assert (await served.get(f"/hot/{TOPIC}/0/1", **red)).status_code == 404
        assert (await served.get(f"/hot/{TOPIC}/0/1?raw=true", **red)).status_code == 404
        assert await amounts(f"/hot/{TOPIC}/0", **blue) == [2]
        assert await amounts(f"/hot/{TOPIC}/0?limit=1", **blue) == [2], "those of others do not count"
        assert await amounts(f"/hot/{TOPIC}?limit=1", **red) == [1]
        assert await amounts(f"/hot/{TOPIC}?raw=true", **blue) == [2]
        assert await amounts(f"/hot/{TOPIC}") == ["NaN"], "who names no tenant is the default one"
        bad = await served.get(f"/hot/{TOPIC}", **{"x-scope-orgid": "a/b"})
        assert (bad.status_code, "cannot be a tenant" in bad.json()["error"]) == (400, True)

    serving(config_of(tmp_path, key_column="id", tenant_column="tenant"), use)


def test_records_that_cannot_be_decoded_are_never_passed_over_in_silence(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        values: list[bytes | None] = [b'{"n": 1}', b"{not json", None, b'{"n": 4, "more": "x"}']
        await served.append(records(range(4), [b"a", b"b", b"c", b"d"], values))
        broken = await served.get(f"/hot/{TOPIC}/key/b")
        assert broken.status_code == 422
        assert "partition 0, offset 1" in broken.json()["error"]
        raw = (await served.get(f"/hot/{TOPIC}/key/b?raw=true")).json()
        assert base64.b64decode(raw["_kafka_value"]) == b"{not json"
        answer = await served.get(f"/hot/{TOPIC}/0?from=0")
        assert answer.headers["x-frazil-undecodable"] == "0/1"
        shown = [(row["_kafka_offset"], row["_kafka_tombstone"], row["n"], row["more"]) for row in answer.json()]
        assert shown == [(0, False, 1, None), (2, True, None, None), (3, False, 4, "x")]
        one = (await served.get(f"/hot/{TOPIC}/key/c")).json()
        assert (one["_kafka_tombstone"], one["n"], one["more"]) == (True, None, None), "the columns of all others"

    serving(config_of(tmp_path, format=FormatConfig(value="json")), use)


def test_what_is_in_memory_is_listed_and_measured(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.append(records([5, 7]))
        await served.get(f"/hot/{TOPIC}/key/k5")
        await served.get(f"/hot/{TOPIC}/key/nobody")
        listing = (await served.get("/hot")).json()
        assert listing["bytes"] <= listing["max_bytes"]
        (topic,) = listing["topics"]
        assert (topic["topic"], topic["records"], topic["index_bytes"]) == (TOPIC, 2, 16)
        assert topic["partitions"] == [
            {
                "partition": 0,
                "records": 2,
                "unsealed_records": 2,
                "first_offset": 5,
                "last_offset": 7,
                "written_here": True,
            }
        ]
        text = (await served.get("/metrics")).text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        values = {s.name: s.value for s in samples if s.labels.get("topic") == TOPIC}
        assert values["frazil_buffer_record_count"] == 2
        assert values["frazil_buffer_index_bytes"] == 16
        assert values["frazil_buffer_size_bytes"] == values["frazil_buffer_unsealed_bytes"] == topic["bytes"]
        assert values["frazil_buffer_oldest_unsealed_seconds"] >= 0
        assert (values["frazil_buffer_hits_total"], values["frazil_buffer_misses_total"]) == (1, 1)
        assert served.hot.health().status == "healthy"
        served.hot.hot.buffer.max_bytes = 1
        assert served.hot.health().status == "degraded"
        assert "not sealed yet" in served.hot.health().reason

    serving(config_of(tmp_path), use)


class Waiting(ColdLookup):
    """Waits like a slow store, until a test lets it answer."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.goes_on = threading.Event()
        self.asked = threading.Semaphore(0)

    def by_key(self, topic: str, key: bytes, below: Mapping[int, int], tenant: Tenant | None = None) -> pa.Table:
        self.asked.release()
        self.goes_on.wait()
        return super().by_key(topic, key, below, tenant)


def test_those_who_ask_for_older_rows_wait_by_themselves(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    cold = Waiting(config)

    async def use(served: Served) -> None:
        await served.append(records([0]))
        places = COLD_THREADS + COLD_WAITING
        asked = [asyncio.create_task(served.get(f"/hot/{TOPIC}/key/nobody?cold=true")) for _ in range(places + 1)]
        try:
            for _ in range(COLD_THREADS):
                await asyncio.to_thread(cold.asked.acquire)
            (refused,), waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert (await served.get(f"/hot/{TOPIC}/key/k0")).status_code == 200
        finally:
            cold.goes_on.set()
        answer = refused.result()
        assert (answer.status_code, bool(answer.headers["retry-after"])) == (429, True)
        assert "Ask again later" in answer.json()["error"]
        assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {404}
        assert (await served.get(f"/hot/{TOPIC}/key/nobody?cold=true")).status_code == 404, "there are places again"

    serving(config, use, cold)


def test_who_asks_for_older_rows_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.hot.query_threads.COLD_SECONDS", 0.1)
    config = config_of(tmp_path)
    cold = Waiting(config)

    async def use(served: Served) -> None:
        await served.append(records([0]))
        try:
            answer = await served.get(f"/hot/{TOPIC}/key/nobody?cold=true")
        finally:
            cold.goes_on.set()
        assert (answer.status_code, "within 0.1 seconds" in answer.json()["error"]) == (504, True)

    serving(config, use, cold)
