"""Partitions are assigned to processes from outside: the new writer takes its partition, the former one is fenced."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import KafkaTopicReplaced, PartitionFenced, PartitionLocked, StorageUnavailable
from frazil.log.log import Log
from frazil.log.wal.recovery import wal_files
from frazil.log.writer.options import WriterOptions
from frazil.store.local import LocalStore
from tests.log.support import SCHEMA, TOPIC, ids, reader, rows, wal_of, writer

TAKEN = WriterOptions(ack="object", exclusive=False, seal_seconds=3600)


def test_two_processes_of_a_machine_may_open_a_partition_and_one_writes(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    with Log(config) as first, Log(config) as second:
        hanging = first.writer(TOPIC, SCHEMA, partition=0, options=TAKEN)
        hanging.submit(rows(0, 10))
        taking = second.writer(TOPIC, partition=0, options=TAKEN)
        taking.submit(rows(0, 5))
        assert taking.seal() is not None
        with pytest.raises(PartitionFenced):
            hanging.seal()
        assert ids(second.reader(TOPIC, 0).read(0)) == [0, 1, 2, 3, 4]


def test_a_wal_is_locked_whatever_is_asked_for(local_store: LocalStore, tmp_path: Path) -> None:
    held = writer(local_store, tmp_path, exclusive=False)
    with pytest.raises(PartitionLocked):
        writer(local_store, tmp_path, exclusive=False)
    held.close()


def test_without_a_wal_and_a_lock_nothing_is_left_on_the_disk(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path, ack="object", exclusive=False)
    w.submit(rows(0, 1))
    w.seal_all()
    w.close()
    assert not wal_of(tmp_path).exists()
    assert not wal_files(wal_of(tmp_path))


def test_letting_go_of_an_old_writer_leaves_the_new_one_alone(tmp_path: Path) -> None:
    with Log(Config(data_dir=tmp_path)) as log:
        old = log.writer(TOPIC, SCHEMA, partition=0, options=TAKEN)
        log.release(old)
        new = log.writer(TOPIC, partition=0, options=TAKEN)
        log.release(old)
        assert log.writers == [new]


def test_what_is_not_confirmed_is_not_stored(tmp_path: Path) -> None:
    doubts: list[Exception] = [StorageUnavailable("not now"), KafkaTopicReplaced("another one")]

    def confirm() -> None:
        if doubts:
            raise doubts.pop(0)

    with Log(Config(data_dir=tmp_path)) as log:
        w = log.writer(TOPIC, SCHEMA, partition=0, options=TAKEN, confirm=confirm)
        pending = w.submit(rows(0, 3))
        for error in (StorageUnavailable, KafkaTopicReplaced):
            with pytest.raises(error):
                w.seal()
            assert not pending.done()
            assert ids(reader(log.store).read(0)) == []
        assert w.seal() is not None
        assert pending.result().offset == 0


def test_all_that_is_there_is_sealed_at_once_when_it_is_hurried(tmp_path: Path) -> None:
    small = WriterOptions(ack="object", exclusive=False, seal_seconds=3600, seal_rows=4)
    with Log(Config(data_dir=tmp_path)) as log:
        w = log.writer(TOPIC, SCHEMA, partition=0, options=small)
        early = [w.submit(rows(start, 3)) for start in (0, 3)]
        w.hurry()
        for pending in early:
            pending.result(timeout=30)
        later = w.submit(rows(6, 3))
        assert w.seal_in() == pytest.approx(3600, abs=60)
        assert not later.done()
