"""Tests snapshots of table and log while a mover commits and the log is trimmed: no row is missed between the two."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil.log.segments.trim import trim
from frazil.scan.column_survey import ColumnSurvey
from frazil.scan.topic_snapshot import TopicSnapshots
from frazil.store import open_store
from tests.query.support import World, kafka_batch, kafka_record, rows
from tests.scan.support import Topic, of_parts, span


def trimmed(world: World, topic: str, partition: int) -> None:
    """Marks everything that the table has."""
    store = open_store(world.config.store, world.config.data_dir.absolute())
    now_ms = int(time.time() * 1000)
    trim(store, topic, partition, needed_from=10**9, grace_seconds=3600, now_ms=now_ms)


def once_before(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, event: Callable[[], None]) -> None:
    """Makes something happen right before a method is called for the first time."""
    method = getattr(owner, name)

    def called(*arguments: object, **named: object) -> object:
        monkeypatch.setattr(owner, name, method)
        event()
        return method(*arguments, **named)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("partition", [0, 1])
def test_the_first_commit_of_a_partition_between_the_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    """This is about the first partition, which comes with the table, and another that the table does not name yet."""
    with World(tmp_path) as world:
        if partition:
            world.append("t", rows(0, 10))
            world.seal("t")
            world.move("t")
        for start in (10, 20, 30):
            world.append("t", rows(start, 10), partition)
            world.seal("t", partition)

        def moved() -> None:
            world.move("t")
            trimmed(world, "t", partition)

        once_before(monkeypatch, TopicSnapshots, "extents", moved)
        found = frazil.read("t", config=world.config).table()
        assert sorted(found["id"].to_pylist()) == list(range(0 if partition else 10, 40))


def test_a_partition_that_begins_later_and_that_no_table_names(tmp_path: Path) -> None:
    with Topic(tmp_path) as log:
        for partition in (0, 1):
            log.seal(10, partition)
            log.seal(10, partition)
        log.trim(10, partition=1, delete=True)
        assert of_parts(log.rows().plan().tasks) == span(0, 0, 20) + span(1, 10, 20), "there is no table"
        log.create(0)
        assert of_parts(log.rows().plan().tasks) == span(0, 0, 20) + span(1, 10, 20), "it names another partition"


def test_records_that_leave_the_wal_before_their_columns_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(offset: int) -> None:
        world.append("t", kafka_batch([kafka_record(offset, value=b'{"n": %d, "c%d": 1}' % (offset, offset))]))

    with World(tmp_path, topics={"t": {"ack": "local", "format": {"value": "json"}}}) as world:
        record(0)
        record(1)

        def moved() -> None:
            world.seal("t")
            record(2)
            world.seal("t")
            world.move("t")
            trimmed(world, "t", 0)

        once_before(monkeypatch, ColumnSurvey, "of_wal", moved)
        found = frazil.read("t", config=world.config).table()
        assert sorted(found["n"].to_pylist()) == [0, 1, 2]
        assert {"c0", "c1"} <= set(found.column_names)
