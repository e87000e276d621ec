"""Tests a real S3 server that is slow, fails, loses its answers or is down, and two writers on one partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.config.sections.topics import TopicConfig
from frazil.errors import LogFull, PartitionFenced
from frazil.log.log import Log
from frazil.log.positions import Origin, Sequence
from frazil.store import ObjectStore, open_store
from tests.log.support import SCHEMA, TOPIC, ids, rows
from tests.servers.proxy import Proxy
from tests.servers.shared import S3Server


@pytest.fixture
def config(tmp_path: Path, s3_server: S3Server, s3_prefix: str, s3_proxy: Proxy) -> Config:
    return Config(
        data_dir=tmp_path,
        store=s3_server.config(s3_prefix, endpoint=s3_proxy.endpoint, timeout_seconds=2),
        log=LogConfig(
            seal=SealConfig(interval_seconds=0.05), linger_ms=50, append_timeout_seconds=0.3, max_tail_mb=1
        ),
    )


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def append_and_check(config: Config, s3_store: ObjectStore, count: int = 20) -> None:
    """Checks that everything acknowledged is sealed in the end, once and in order."""
    with Log(config) as log:
        w = log.writer(TOPIC, SCHEMA)
        for i in range(count):
            assert w.append(rows(i * 10, 10)).offset == i * 10
            time.sleep(0.01)
        wait_for(lambda: w.sealed_end == count * 10)
        wait_for(lambda: not log.problems())
    with Log(config, store=s3_store) as log:
        assert ids(log.reader(TOPIC, 0).read(0)) == list(range(count * 10))


def test_slow_answers(config: Config, s3_store: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT", "*.parquet").delay(0.3, times=5)
    append_and_check(config, s3_store)


def test_errors_and_then_none(config: Config, s3_store: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT", "*.parquet").answer(500, times=7)
    s3_proxy.on("GET").answer(503, times=2)
    append_and_check(config, s3_store)


def test_stored_but_the_answer_is_lost(config: Config, s3_store: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT", "*.parquet").drop_reply(times=6)
    append_and_check(config, s3_store)


def test_stored_but_the_answer_comes_too_late(config: Config, s3_store: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT", "*.parquet").delay_reply(4, times=1)
    append_and_check(config, s3_store, count=5)


@pytest.mark.parametrize("away_seconds", [2, pytest.param(60, marks=pytest.mark.soak)])
def test_away_for_a_while(config: Config, s3_store: ObjectStore, s3_proxy: Proxy, away_seconds: float) -> None:
    """Appends are acknowledged until the tail is full, then refused, and accepted again when the store is back."""
    with Log(config) as log:
        w = log.writer(TOPIC, SCHEMA)
        count = w.append(rows(0, 1000)).rows
        s3_proxy.down()
        back = time.monotonic() + away_seconds
        refused = False
        while time.monotonic() < back:
            try:
                count += w.append(rows(count, 1000)).rows
            except LogFull:
                refused = True
        assert refused
        assert w.tail.nbytes < 2 * 1024 * 1024
        assert log.problems()
        s3_proxy.up()
        wait_for(lambda: not log.problems() and w.sealed_end == count)
        assert w.append(rows(count, 10)).offset == count
    with Log(config, store=s3_store) as log:
        assert ids(log.reader(TOPIC, 0).read(0)) == list(range(count + 10))


@pytest.mark.parametrize("fault", ["errors", "lost answers"])
def test_with_ack_object_each_acknowledged_append_is_there_once(
    config: Config, s3_store: ObjectStore, s3_proxy: Proxy, fault: str
) -> None:
    rule = s3_proxy.on("PUT", "*.parquet")
    rule.answer(500, times=4) if fault == "errors" else rule.drop_reply(times=4)
    config = config.model_copy(update={"topics": {TOPIC: TopicConfig(ack="object")}})
    with Log(config) as log:
        w = log.writer(TOPIC, SCHEMA)
        assert [w.append(rows(i * 10, 10)).offset for i in range(5)] == [0, 10, 20, 30, 40]
    with Log(config, store=s3_store) as log:
        assert ids(log.reader(TOPIC, 0).read(0)) == list(range(50))


def test_two_writers_race_for_a_partition(
    tmp_path: Path, s3_server: S3Server, s3_prefix: str, s3_store: ObjectStore
) -> None:
    """Appends of both writers are acknowledged and stored once, and neither overwrites the other."""
    acknowledged: list[tuple[int, int]] = []
    lock = threading.Lock()

    def race(number: int) -> None:
        config = Config(
            data_dir=tmp_path / str(number),
            store=s3_server.config(s3_prefix),
            log=LogConfig(linger_ms=10),
            topics={TOPIC: TopicConfig(ack="object")},
        )
        with Log(config, store=open_store(config.store, config.data_dir)) as log:
            w = log.writer(TOPIC, SCHEMA, partition=0)
            for i in range(15):
                first = number * 1000 + i * 10
                while True:
                    try:
                        ack = w.append(rows(first, 10), Origin(sequence=Sequence(f"producer {number}", i)))
                        break
                    except PartitionFenced:
                        w.resume()
                with lock:
                    acknowledged.append((ack.offset, first))

    threads = [threading.Thread(target=race, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    with Log(Config(data_dir=tmp_path), store=s3_store) as log:
        found = ids(log.reader(TOPIC, 0).read(0))
    assert len(acknowledged) == 30
    assert len(found) == len(set(found)) == 300
    for offset, first in acknowledged:
        assert found[offset : offset + 10] == list(range(first, first + 10))
