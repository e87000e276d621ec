"""Tests that a scan has every acknowledged row once, whatever happens to the rows while it reads."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.errors import CatalogLost, FrazilError
from frazil.lake.commit.offsets import TableState
from frazil.log.segments.trim import trim
from frazil.scan.interface import Order, ScanRequest
from frazil.scan.predicates.tree import Column, Comparison
from frazil.scan.scanner import TopicScanner
from tests.query.support import World

TOPIC = "orders"
SCHEMA = pa.schema([("id", pa.int64()), ("publish_time", pa.timestamp("us", "UTC")), ("text", pa.string())])
ROUNDS = 12


def rows(start: int, count: int) -> pa.RecordBatch:
    ids = pa.array(range(start, start + count), pa.int64())
    times = pa.array([(n * 7919) % 1000 for n in range(start, start + count)], pa.int64()).cast(SCHEMA.field(1).type)
    return pa.record_batch([ids, times, pa.array([f"row {n}" for n in range(start, start + count)])], schema=SCHEMA)


class Readers:
    """Scans in two threads until it is stopped, and keeps the first thing that was wrong."""

    def __init__(self, scanner: TopicScanner) -> None:
        self.acknowledged = 0
        self.problem: BaseException | None = None
        self.scans = 0
        self._scanner = scanner
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(order,)) for order in ("none", "newest first")]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, order: Order) -> None:
        try:
            while not self._stop.is_set():
                self._scan(order)
                self.scans += 1
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.problem = error

    def _scan(self, order: Order) -> None:
        before = self.acknowledged
        if not before:
            return
        scan = self._scanner.scan(ScanRequest(TOPIC, None, order=order, columns=("id", "publish_time")))
        table = scan.table()
        found = table["id"].to_pylist()
        assert sorted(found) == list(range(len(found)))
        assert before <= len(found) == scan.offsets[0]
        if order != "none":
            keys = list(zip(table["publish_time"].to_pylist(), found, strict=True))
            assert keys == sorted(keys, reverse=True)


def test_no_row_is_missing_or_doubled_beside_movers_and_maintenance(tmp_path: Path) -> None:
    with World(tmp_path) as world, closing(TopicScanner(world.config)) as scanner, Readers(scanner) as readers:
        written = 0
        for number in range(ROUNDS):
            for count in (1, 7, 40):
                world.append(TOPIC, rows(written, count))
                written += count
                readers.acknowledged = written
            if number % 2:
                world.seal(TOPIC)
            if number % 3 == 2:
                world.move(TOPIC)
            if number % 5 == 4:
                world.compact(TOPIC)
            if number % 4 == 3:
                for partition, offset in TableState.of(world.table(TOPIC)).offsets.items():
                    # The segments are only marked: files are deleted after a grace time that is longer than a read.
                    trim(world.log.store, TOPIC, partition, needed_from=offset, grace_seconds=3600, now_ms=1)
            if readers.problem is not None:
                raise readers.problem
    if readers.problem is not None:
        raise readers.problem
    assert readers.scans > ROUNDS


def test_memory_of_an_unacknowledged_log_is_seen_once(tmp_path: Path) -> None:
    """Rows of a topic without a WAL are in the memory of their writer until they are sealed."""
    with World(tmp_path, topics={TOPIC: {"ack": "object"}}) as world:
        tails = lambda topic: {0: world.writer(topic).tail.view()}  # noqa: E731
        with closing(TopicScanner(world.config, tails=tails)) as scanner:
            written = 0
            for number in range(6):
                world.append(TOPIC, rows(written, 10))
                written += 10
                found = scanner.scan(ScanRequest(TOPIC, None, columns=("id",)))
                assert sorted(found.table()["id"].to_pylist()) == list(range(written))
                assert found.statistics.complete
                if number % 2:
                    world.seal(TOPIC)
        with closing(TopicScanner(world.config)) as elsewhere:
            scan = elsewhere.scan(ScanRequest(TOPIC, None))
            assert len(scan.table()) == written
            assert not scan.statistics.complete


def test_another_log_and_lake_in_the_same_place_are_noticed(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, start in ((first, 0), (second, 1000)):
        with World(folder) as world:
            world.fill(TOPIC, rows(start, 30), moved=10, sealed=20)
    used = tmp_path / "used"
    used.symlink_to(first / "data")
    with closing(TopicScanner(Config.model_validate({"data_dir": used}))) as scanner:
        for folder, start in ((first, 0), (second, 1000), (first, 0)):
            # Tables have absolute paths, so the folder is not copied.
            used.unlink()
            used.symlink_to(folder / "data")
            found = scanner.scan(ScanRequest(TOPIC, None, columns=("id",))).table()["id"].to_pylist()
            assert sorted(found) == list(range(start, start + 30))
            where = Comparison(Column("id"), ">=", start + 25)
            assert len(scanner.scan(ScanRequest(TOPIC, None, where=where)).table()) == 5


def test_a_lost_catalog_is_an_error_with_a_warm_scanner(tmp_path: Path) -> None:
    with World(tmp_path) as world, closing(TopicScanner(world.config)) as scanner:
        world.fill(TOPIC, rows(0, 30), moved=10, sealed=20)
        assert len(scanner.scan(ScanRequest(TOPIC, None)).table()) == 30
        for path in world.config.data_dir.glob("catalog.db*"):
            path.unlink()
        with pytest.raises(FrazilError) as raised:
            scanner.scan(ScanRequest(TOPIC, None))
        assert isinstance(raised.value, CatalogLost) or "no such table" in str(raised.value)
