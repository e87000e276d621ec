"""What is acknowledged can be read at once, in every way there is, and by its own tenant only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import yaml

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier
from frazil.scan.log_extents import LogExtents
from frazil.scan.log_location import LogLocation
from frazil.scan.read_api import read
from frazil.web.answers import ARROW_STREAM
from tests.cli.support import frazil, serving
from tests.doors.telemetry.support import PROTOBUF, TIME, logs_request
from tests.pipeline.processes import committed
from tests.pipeline.support import move_all, pipeline_context
from tests.servers.child import free_ports

# The tests share a server.
pytestmark = pytest.mark.xdist_group("otlp-tenants")

OURS, THEIRS = "alpha", "beta"
BATCH = 6
"""The number of records that are sealed together."""
PLACES = ("table", "segment", "tail")


def text_of(tenant: str, place: str, number: int) -> str:
    return f"secret of {tenant} in the {place}, {number}"


def texts_of(tenant: str) -> list[str]:
    return sorted(
        text_of(tenant, place, number) for place in PLACES for number in range(BATCH // 2 - (place == "tail"))
    )


class World:
    """A running `frazil serve`, with rows of two tenants in the table, in a segment and in the tail."""

    def __init__(self, folder: Path, url: str, otlp: str, config: Config) -> None:
        self.folder = folder
        self.url = url
        self.config = config
        self._otlp = otlp
        self._client = httpx.Client(timeout=120)

    def send(self, tenant: str, *texts: str) -> None:
        body = logs_request(*texts, time=TIME).SerializeToString()
        answer = self._client.post(
            f"{self._otlp}/v1/logs", content=body, headers={**PROTOBUF, "x-scope-orgid": tenant}
        )
        assert (answer.status_code, answer.content) == (200, b"")

    def fill(self) -> None:
        for place in PLACES:
            for tenant in (OURS, THEIRS):
                count = BATCH // 2 - (place == "tail")
                self.send(tenant, *(text_of(tenant, place, number) for number in range(count)))
            if place != "tail":
                self._await_sealed((PLACES.index(place) + 1) * BATCH)
            if place == "table":
                with pipeline_context(self.config) as tools:
                    move_all(tools, "logs")
        assert committed(self.config, "logs") == {0: BATCH}
        assert (self._extent().sealed_end, self._extent().end) == (2 * BATCH, 3 * BATCH - 2)

    def _extent(self) -> Any:
        store = LogLocation.of(self.config, "logs").open()
        return LogExtents(store, "logs", self.config.data_dir).current(tail=True)[0]

    def _await_sealed(self, end: int) -> None:
        until = time.monotonic() + 60
        while self._extent().sealed_end < end:
            assert time.monotonic() < until, "not sealed"
            time.sleep(0.05)

    def post(self, query: str, tenant: str | None = OURS, **headers: str) -> httpx.Response:
        whose = {} if tenant is None else {"x-scope-orgid": tenant}
        return self._client.post(f"{self.url}/sql", content=query, headers={**whose, **headers})

    def sql(self, query: str, tenant: str | None = OURS) -> list[dict[str, Any]]:
        answer = self.post(query, tenant)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def get(self, path: str, tenant: str = OURS, **headers: str) -> httpx.Response:
        return self._client.get(f"{self.url}{path}", headers={"x-scope-orgid": tenant, **headers})

    def command(self, query: str, *more: str) -> list[dict[str, Any]]:
        done = frazil(self.folder, "sql", query, "--output", "json", *more, FRAZIL__OTLP__ENABLED="true")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tenants")
    http, grpc = free_ports(2)
    given = {
        "data_dir": str(folder / "data"),
        "otlp": {"http": {"port": http}, "grpc": {"port": grpc}},
        "log": {"seal": {"interval_seconds": 3600.0}},
        "topics": {"logs": {"seal": {"max_rows": BATCH}, "key_column": "service_name"}},
    }
    (folder / "frazil.yaml").write_text(yaml.safe_dump(given))
    with serving(folder, {"FRAZIL__OTLP__ENABLED": "true"}) as served:
        made = World(folder, served.url, f"http://127.0.0.1:{http}", Config.model_validate(given))
        with closing(made):
            made.fill()
            yield made


def bodies(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["body"] for row in rows)


@pytest.mark.parametrize("tenant", [OURS, THEIRS])
def test_each_sees_its_own_rows_wherever_they_are(world: World, tenant: str) -> None:
    expected = texts_of(tenant)
    assert bodies(world.sql("SELECT * FROM logs", tenant)) == expected
    arrow = world.post("SELECT body FROM logs", tenant, accept=ARROW_STREAM)
    assert sorted(pa.ipc.open_stream(arrow.content).read_all()["body"].to_pylist()) == expected
    assert bodies(world.command("SELECT body FROM logs", "--tenant", tenant)) == expected
    assert bodies(world.command("SELECT body FROM logs", "--tenant", tenant, "--url", world.url)) == expected
    assert sorted(read("logs", config=world.config, tenant=tenant).table()["body"].to_pylist()) == expected
    found = read("logs", config=world.config, tenant=tenant, where=f"tenant_id = '{OURS}'", columns=["body"]).table()
    assert sorted(found["body"].to_pylist()) == (expected if tenant == OURS else [])
    everything = sorted(texts_of(OURS) + texts_of(THEIRS))
    assert sorted(read("logs", config=world.config).table()["body"].to_pylist()) == everything


def test_who_names_no_tenant_sees_that_of_nobody(world: World) -> None:
    assert world.sql("SELECT * FROM logs", tenant=None) == []
    assert world.sql("SELECT * FROM logs", tenant="ALPHA") == []
    assert world.post("SELECT * FROM logs", "../alpha").status_code == 400


def test_hot_lookups(world: World) -> None:
    for cold in ("", "cold=true&"):
        within = f"/hot/logs/0?{cold}limit=1000" + ("&from=0" if cold else "")
        found = world.get(within).json()
        assert {row["tenant_id"] for row in found} == {OURS}
        assert set(bodies(found)) <= set(texts_of(OURS))
    assert bodies(world.get("/hot/logs/0?cold=true&from=0&limit=1000").json()) == texts_of(OURS)
    assert {row["tenant_id"] for row in world.get("/hot/logs").json()} == {OURS}
    for offset in range(3 * BATCH - 2):
        seen = [world.get(f"/hot/logs/0/{offset}?cold=true", tenant) for tenant in (OURS, THEIRS)]
        assert sorted(answer.status_code for answer in seen) == [200, 404]
        (row,) = (answer.json() for answer in seen if answer.status_code == 200)
        assert row["tenant_id"] == (OURS if seen[0].status_code == 200 else THEIRS)
    for tenant in (OURS, THEIRS):
        newest = world.get("/hot/logs/key/shop?cold=true", tenant).json()
        assert newest["body"] in texts_of(tenant)
    for path in ("/hot/logs?raw=true", "/hot/logs/0?raw=true", "/hot/logs/key/shop?raw=true"):
        assert f"secret of {THEIRS}" not in world.get(path).text


HONEST = [
    "SELECT body FROM logs WHERE tenant_id = 'beta'",
    "SELECT body FROM logs WHERE tenant_id <> 'alpha' OR 1 = 1",
    "SELECT body FROM LOGS WHERE true -- AND tenant_id",
    "SELECT body FROM \"logs\" WHERE NOT (tenant_id = 'alpha')",
    "SELECT b.body FROM logs AS a JOIN logs AS b ON true",
    "SELECT b.body FROM logs AS a LEFT JOIN logs AS b ON a.tenant_id <> b.tenant_id",
    "SELECT b.body FROM logs AS a FULL OUTER JOIN logs AS b ON a._offset = b._offset",
    "SELECT body FROM logs UNION ALL SELECT body FROM logs UNION SELECT body FROM logs WHERE tenant_id = 'beta'",
    "SELECT body FROM logs EXCEPT SELECT body FROM logs WHERE tenant_id = 'alpha'",
    "SELECT (SELECT max(body) FROM logs WHERE tenant_id = 'beta') AS body",
    "SELECT body FROM (SELECT * FROM (SELECT * FROM logs) WHERE tenant_id = 'beta')",
    "WITH logs AS (SELECT * FROM logs) SELECT body FROM logs WHERE tenant_id = 'beta'",
    "WITH RECURSIVE r AS (SELECT body, 0 AS n FROM logs UNION ALL SELECT l.body, n + 1 FROM r, logs AS l WHERE n < 1)"
    " SELECT body FROM r",
    "SELECT l.body FROM range(20) AS t(n), LATERAL (SELECT body FROM logs WHERE _offset = n) AS l",
    "SELECT body FROM logs WHERE EXISTS (SELECT 1 FROM logs AS o WHERE o.tenant_id = 'beta')",
    "SELECT max(body) OVER () AS body FROM logs",
    "SELECT string_agg(body, ',') AS body FROM logs",
    "SELECT body FROM logs QUALIFY row_number() OVER (ORDER BY tenant_id DESC) < 10",
    "SELECT body FROM logs ORDER BY tenant_id DESC LIMIT 100",
    "SELECT body FROM logs USING SAMPLE 100%",
    "FROM logs",
    "FROM frazil.logs",
    "SUMMARIZE logs",
    "EXPLAIN ANALYZE SELECT body FROM logs WHERE tenant_id = 'beta'",
]
"""These queries are allowed, and do not see rows of other tenants."""


@pytest.mark.parametrize("query", HONEST)
def test_tricks_that_are_queries_find_nothing_of_others(world: World, query: str) -> None:
    answer = world.post(query)
    assert f"secret of {THEIRS}" not in answer.text
    assert answer.status_code in (200, 400), answer.text
    theirs = world.post(query, THEIRS)
    assert theirs.status_code == answer.status_code
    assert f"secret of {OURS}" not in theirs.text


def test_what_is_counted_is_ones_own(world: World) -> None:
    (row,) = world.sql("SELECT count(*) AS n, count(DISTINCT tenant_id) AS t, min(tenant_id) AS a FROM logs")
    assert row == {"n": len(texts_of(OURS)), "t": 1, "a": OURS}
    assert world.sql("SELECT count(*) AS n FROM logs WHERE tenant_id = 'beta'") == [{"n": 0}]


REACHING = [
    "FROM read_parquet('{file}')",
    "FROM parquet_scan('{file}')",
    "FROM '{file}'",
    'SELECT * FROM "{file}"',
    "FROM read_parquet(['{file}'])",
    "FROM parquet_metadata('{file}')",
    "FROM read_blob('{file}')",
    "FROM read_text('{wal}')",
    "FROM glob('{data}/**')",
    "FROM iceberg_scan('{table}')",
    "FROM sqlite_scan('{data}/catalog.db', 'iceberg_tables')",
    "ATTACH '{data}/catalog.db' AS c (TYPE sqlite)",
    "COPY logs TO '{data}/out.csv'",
    "COPY (SELECT 1) TO '{data}/out.csv'",
    "CREATE VIEW v AS SELECT * FROM logs",
    "CREATE TEMP TABLE t AS SELECT * FROM logs",
    "CREATE OR REPLACE MACRO tenant_id() AS 'beta'",
    "SET enable_external_access = true",
    "SET VARIABLE tenant = 'beta'",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD sqlite",
    "SELECT getenv('HOME')",
    "FROM query('FROM read_parquet(''{file}'')')",
    "FROM query_table('{file}')",
    "FROM duckdb_tables()",
    "FROM duckdb_views()",
    "FROM duckdb_settings()",
    "FROM information_schema.tables",
    "FROM information_schema.columns",
    "FROM pg_catalog.pg_tables",
    "FROM sqlite_master",
    "SELECT 1; SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM logs; ATTACH '{data}/catalog.db'",
    "EXPLAIN COPY logs TO '{data}/out.csv'",
    "SELECT * FROM python_map_function()",
    "FROM config",
    "FROM _tables",
]
"""These queries would bypass the filter."""


@pytest.mark.parametrize("query", REACHING)
def test_nobody_reaches_around(world: World, query: str) -> None:
    with closing(Lake(world.config)) as lake:
        table = lake.load(base_identifier(world.config, "logs"))
        files = [task.file for task in table.scan().plan_files()]
    (file,) = (str(each.file_path).removeprefix("file://") for each in files if each.partition[0] == THEIRS)
    assert Path(file).is_file()
    data = world.config.data_dir
    (wal, *_) = sorted((data / "wal" / "logs").rglob("*.wal"))
    before = sorted(data.rglob("*.csv"))
    answer = world.post(query.format(file=file, wal=wal, data=data, table=table.location()))
    assert answer.status_code == 400, answer.text
    assert f"secret of {THEIRS}" not in answer.text
    assert sorted(data.rglob("*.csv")) == before
    assert len(world.sql("SELECT body FROM logs")) == len(texts_of(OURS))


def test_fresh_for_all_readers_at_once(world: World) -> None:
    """There is no moment between the acknowledgement and the query."""
    tenant = "fresh"
    for number in range(3):
        world.send(tenant, f"sql {number}")
        expected = [f"sql {each}" for each in range(number + 1)]
        assert bodies(world.sql("SELECT body FROM logs WHERE body LIKE 'sql%'", tenant)) == expected
        world.send(tenant, f"read {number}")
        found = read("logs", config=world.config, tenant=tenant, where="body LIKE 'read%'").table()["body"]
        assert f"read {number}" in found.to_pylist()
        world.send(tenant, f"command {number}")
        told = world.command(f"SELECT body FROM logs WHERE body = 'command {number}'", "--tenant", tenant)
        assert bodies(told) == [f"command {number}"]
