from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from frazil.app.parts.log import LogPart
from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.errors import FrazilIoError, LogCorrupted
from frazil.log.log import Log
from frazil.log.wal.recovery import wal_files
from frazil.ops.metrics import render
from frazil.store.local import LocalStore
from tests.log.support import SCHEMA, TOPIC, Machine, crash, cut_zeros, ids, newest_wal, reader, rows, wal_of, writer
from tests.servers.proxy import Proxy
from tests.servers.shared import S3Server


async def until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not ready():
            await asyncio.sleep(0.02)


def store_of(folder: Path) -> LocalStore:
    return LocalStore(folder / "store")


def test_what_a_killed_process_left_is_sealed_at_the_start(tmp_path: Path) -> None:
    left = writer(store_of(tmp_path), tmp_path, Machine.real())
    left.append(rows(0, 10))
    crash(left)

    async def run() -> None:
        part = LogPart(Config(data_dir=tmp_path), CollectorRegistry())
        await part.start()
        assert part.health().status == "healthy"
        await part.stop()

    asyncio.run(run())
    assert ids(reader(store_of(tmp_path)).read(0)) == list(range(10))


def test_and_of_one_killed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.app.parts.log.ADOPT_SECONDS", 0.05)

    async def run() -> None:
        part = LogPart(Config(data_dir=tmp_path), CollectorRegistry())
        await part.start()
        left = writer(store_of(tmp_path), tmp_path, Machine.real())
        left.append(rows(0, 10))
        await asyncio.sleep(0.2)
        assert left.sealed_end == 0, "not while its process lives"
        crash(left)
        await until(lambda: reader(store_of(tmp_path)).bounds().sealed_end == 10)
        await part.stop()

    asyncio.run(run())


def test_a_damaged_wal_stops_the_start(tmp_path: Path) -> None:
    left = writer(store_of(tmp_path), tmp_path, Machine.real())
    left.append(rows(0, 10))
    left.append(rows(10, 10))
    crash(left)
    path = cut_zeros(newest_wal(tmp_path))
    data = bytearray(path.read_bytes())
    data[-600] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogCorrupted, match=path.name):
        asyncio.run(LogPart(Config(data_dir=tmp_path), CollectorRegistry()).start())
    assert wal_files(wal_of(tmp_path)) == [path]


@pytest.mark.parametrize("harm", ["file gone", "header", "middle", "not a file", "claim", "segment"])
def test_harm_to_one_topic_stops_that_alone(tmp_path: Path, harm: str) -> None:
    """The topic is served again when it is repaired, without a restart."""
    for topic in (TOPIC, "visits"):
        log = Log(Config(data_dir=tmp_path))
        left = log.writer(topic, SCHEMA)
        left.append(rows(0, 10))
        left.seal()
        # The records that follow are in a file of their own.
        left._dropping.result()
        left.append(rows(10, 10))
        left.append(rows(20, 10))
        log._sealer.stop()
        crash(left)
    path = cut_zeros(newest_wal(tmp_path))
    store = tmp_path / "store" / "queue" / TOPIC / "00000"
    path = {"claim": store / "writer.json", "segment": store / f"{0:020d}.parquet"}.get(harm, path)
    whole = path.read_bytes()
    if harm == "file gone":
        path.unlink()
    elif harm == "not a file":
        path.unlink()
        path.mkdir()
    else:
        data = bytearray(whole)
        data[{"header": 30, "claim": 3, "segment": -20}.get(harm, len(data) // 2)] ^= 1
        path.write_bytes(data)

    async def run() -> None:
        part = LogPart(Config(data_dir=tmp_path), CollectorRegistry())
        await part.start()
        health = part.health()
        assert (health.status, list(health.details)) == ("degraded", [f"{TOPIC}/0"])
        assert part.log.writer("visits").append(rows(30, 10)).offset == 30
        for _ in range(2):
            with pytest.raises((LogCorrupted, FrazilIoError)):
                part.log.writer(TOPIC)
        if harm == "claim":
            assert ids(part.log.reader(TOPIC, 0).read(0)) == list(range(30))
        else:
            with pytest.raises((LogCorrupted, FrazilIoError)):
                ids(part.log.reader(TOPIC, 0).read(0))
        if harm not in ("claim", "segment"):
            assert ids(part.log.reader(TOPIC, 0).read(0, 10)) == list(range(10)), "what is sealed can be read"
        if harm == "not a file":
            path.rmdir()
        path.write_bytes(whole)
        assert part.log.writer(TOPIC).append(rows(30, 10)).offset == 30
        assert part.health().status == "healthy"
        await part.stop()

    asyncio.run(run())


def test_a_store_that_goes_away_degrades_and_comes_back(
    tmp_path: Path, s3_server: S3Server, s3_prefix: str, s3_proxy: Proxy
) -> None:
    config = Config(
        data_dir=tmp_path,
        store=s3_server.config(s3_prefix, endpoint=s3_proxy.endpoint, timeout_seconds=5),
        log=LogConfig(seal=SealConfig(interval_seconds=0.05)),
    )

    async def run() -> None:
        part = LogPart(config, CollectorRegistry())
        await part.start()
        w = await asyncio.to_thread(part.log.writer, TOPIC, SCHEMA)
        s3_proxy.down()
        await w.append_async(rows(0, 10))
        await until(lambda: part.health().status == "degraded")
        assert f"{TOPIC}/0" in part.health().reason
        s3_proxy.up()
        await until(lambda: part.health().status == "healthy")
        assert w.sealed_end == 10
        await part.stop()

    asyncio.run(run())


def test_a_store_that_is_away_at_the_start_is_waited_for(
    tmp_path: Path, s3_server: S3Server, s3_prefix: str, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.app.parts.log.ADOPT_SECONDS", 0.05)
    config = Config(
        data_dir=tmp_path, store=s3_server.config(s3_prefix, endpoint=s3_proxy.endpoint, timeout_seconds=5)
    )

    async def run() -> None:
        s3_proxy.down()
        part = LogPart(config, CollectorRegistry())
        await part.start()
        assert part.health().status == "degraded"
        s3_proxy.up()
        await until(lambda: part.health().status == "healthy")
        await part.stop()

    asyncio.run(run())


def test_a_partition_taken_by_another_is_unhealthy(tmp_path: Path) -> None:
    async def run() -> None:
        part = LogPart(Config(data_dir=tmp_path, log=LogConfig(seal=SealConfig(max_rows=1))), CollectorRegistry())
        await part.start()
        w = part.log.writer(TOPIC, SCHEMA)
        other = writer(store_of(tmp_path), tmp_path / "other", Machine(1), ack="object")
        other.submit(rows(0, 10))
        other.seal()
        await w.append_async(rows(100, 10))
        await until(lambda: part.health().status == "unhealthy")
        assert "frazil log repair" in part.health().reason
        other.close()
        await part.stop()

    asyncio.run(run())


def test_metrics_tell_what_was_appended_and_sealed(tmp_path: Path) -> None:
    async def run() -> str:
        registry = CollectorRegistry()
        part = LogPart(Config(data_dir=tmp_path), registry)
        await part.start()
        w = part.log.writer(TOPIC, SCHEMA)
        for i in range(3):
            await w.append_async(rows(i * 10, 10))
        await asyncio.to_thread(w.seal)
        await w.append_async(rows(30, 5))
        text = render(registry)[0].decode()
        await part.stop()
        return text

    text = asyncio.run(run())
    labels = f'{{partition="0",topic="{TOPIC}"}}'
    for line in (
        f"frazil_log_appends_total{labels} 4.0",
        f"frazil_log_records_total{labels} 35.0",
        f"frazil_log_segments_sealed_total{labels} 1.0",
        f"frazil_log_sealed_records_total{labels} 30.0",
        f"frazil_log_next_offset{labels} 35.0",
        f"frazil_log_sealed_offset{labels} 30.0",
        f"frazil_log_tail_records{labels} 5.0",
    ):
        assert line in text
