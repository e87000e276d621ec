from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.config.sections.topics import TopicConfig, TopicSealConfig
from frazil.errors import ConfigError, LogCorrupted, PartitionTaken, ShutdownError, StorageError, TopicNotFound
from frazil.log import layout
from frazil.log.claims import owner
from frazil.log.log import Log
from frazil.log.segments.trim import trim
from frazil.log.wal.recovery import wal_files
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from frazil.store.probe import check_create_only
from tests.log.support import SCHEMA, TOPIC, crash, cut_zeros, ids, newest_wal, rows, wal_of


def config(folder: Path, **topic: object) -> Config:
    return Config.model_validate({"data_dir": folder, "topics": {TOPIC: topic}})


def read_all(log: Log, partition: int = 0) -> list[int]:
    return ids(log.reader(TOPIC, partition).read(0))


def test_one_process_one_partition_and_the_same_after_a_restart(tmp_path: Path) -> None:
    for start in (0, 10, 20):
        with Log(config(tmp_path)) as log:
            w = log.writer(TOPIC, SCHEMA)
            assert w is log.writer(TOPIC)
            assert w.partition == 0
            assert w.append(rows(start, 10)).offset == start
    with Log(config(tmp_path)) as log:
        assert log.topics() == [TOPIC]
        assert log.partitions(TOPIC) == [0]
        assert read_all(log) == list(range(30))


def test_a_second_process_takes_a_partition_of_its_own_and_it_is_used_again(tmp_path: Path) -> None:
    with Log(config(tmp_path)) as serving:
        assert serving.writer(TOPIC, SCHEMA).partition == 0
        for _ in range(2):
            with Log(config(tmp_path)) as loading:
                assert loading.writer(TOPIC).partition == 1
    with Log(config(tmp_path)) as log:
        assert log.writer(TOPIC).partition == 0
        assert log.partitions(TOPIC) == [0, 1]


def test_machines_that_share_a_store_never_share_a_partition(any_store: ObjectStore, tmp_path: Path) -> None:
    logs = [Log(config(tmp_path / str(i)), store=any_store) for i in range(3)]
    writers = [log.writer(TOPIC, SCHEMA) for log in logs]
    assert [w.partition for w in writers] == [0, 1, 2]
    assert len({owner(any_store, TOPIC, p) for p in range(3)}) == 3
    with pytest.raises(PartitionTaken, match="belongs to node"):
        logs[0].writer(TOPIC, partition=2)
    for log in logs:
        log.close()


class TestLostDisk:
    def lose(self, folder: Path, store: LocalStore, node: str | None) -> None:
        with Log(Config(data_dir=folder, node=node), store=store) as log:
            w = log.writer(TOPIC, SCHEMA)
            w.append(rows(0, 10))
            w.seal()
            w.append(rows(10, 10))
            log.release(w)
        shutil.rmtree(folder / "wal")

    def test_with_a_lasting_name_the_partition_goes_on_in_a_new_epoch(
        self, local_store: LocalStore, tmp_path: Path
    ) -> None:
        self.lose(tmp_path, local_store, "node-a")
        with Log(Config(data_dir=tmp_path, node="node-a"), store=local_store) as log:
            w = log.writer(TOPIC)
            assert (w.partition, w.next_offset) == (0, 10)
            assert len(w.tail.epochs.history) == 2
            w.append(rows(100, 5))
            assert read_all(log) == [*range(10), *range(100, 105)]

    def test_without_one_a_new_partition_begins_and_the_old_one_stays_as_it_was_sealed(
        self, local_store: LocalStore, tmp_path: Path
    ) -> None:
        self.lose(tmp_path, local_store, None)
        with Log(Config(data_dir=tmp_path), store=local_store) as log:
            assert log.writer(TOPIC).partition == 1
            assert read_all(log, 0) == list(range(10))


def leave_behind(store: LocalStore, folder: Path, *batches: pa.RecordBatch) -> None:
    """Make a WAL with these batches whose process has ended."""
    dead = Log(config(folder), store=store)
    w = dead.writer(TOPIC, SCHEMA)
    for batch in batches:
        w.append(batch)
    dead._sealer.stop()
    crash(w)


def test_what_a_dead_process_left_is_sealed_by_the_next(local_store: LocalStore, tmp_path: Path) -> None:
    leave_behind(local_store, tmp_path, rows(0, 10))
    with Log(config(tmp_path), store=local_store) as log:
        assert read_all(log) == list(range(10)), "it can be read before, too"
        assert log.adopt_orphans() == 1
        assert log.adopt_orphans() == 0
    with Log(config(tmp_path / "elsewhere"), store=local_store) as log:
        assert read_all(log) == list(range(10))


def test_orphans_of_a_running_process_are_left_alone(local_store: LocalStore, tmp_path: Path) -> None:
    with Log(config(tmp_path), store=local_store) as running, Log(config(tmp_path), store=local_store) as other:
        running.writer(TOPIC, SCHEMA).append(rows(0, 10))
        assert other.adopt_orphans() == 0


def test_a_damaged_wal_stops_the_start(local_store: LocalStore, tmp_path: Path) -> None:
    leave_behind(local_store, tmp_path, rows(0, 10), rows(10, 10))
    data = bytearray(cut_zeros(newest_wal(tmp_path)).read_bytes())
    data[-400] ^= 1
    newest_wal(tmp_path).write_bytes(data)
    with Log(config(tmp_path), store=local_store) as log, pytest.raises(LogCorrupted):
        log.writer(TOPIC)


def test_a_topic_may_change_its_ack_class(local_store: LocalStore, tmp_path: Path) -> None:
    expected = 0
    for ack in ("local", "object", "local", "object"):
        with Log(config(tmp_path, ack=ack, linger_ms=10), store=local_store) as log:
            w = log.writer(TOPIC, SCHEMA)
            ack_given = w.append(rows(expected, 10))
            assert (ack_given.offset, ack_given.durability) == (expected, ack)
            expected += 10
            assert bool(wal_files(wal_of(tmp_path))) == (ack == "local")
            log.release(w)
    with Log(config(tmp_path), store=local_store) as log:
        assert read_all(log) == list(range(40))


def test_a_topic_needs_a_schema_once(tmp_path: Path) -> None:
    with Log(config(tmp_path)) as log:
        with pytest.raises(TopicNotFound, match="no schema was given"):
            log.writer("nothing")
        with pytest.raises(ConfigError, match="cannot be a topic"):
            log.writer("../up", SCHEMA)


def test_sealing_happens_by_itself_and_memory_is_given_back(local_store: LocalStore, tmp_path: Path) -> None:
    settings = Config(
        data_dir=tmp_path,
        log=LogConfig(seal=SealConfig(interval_seconds=3600, max_mb=1), max_tail_mb=2, append_timeout_seconds=60),
    )
    batch = pa.record_batch([pa.array(range(20_000), pa.int64()), pa.array(["x" * 30] * 20_000)], schema=SCHEMA)
    with Log(settings, store=local_store) as log:
        w = log.writer(TOPIC, SCHEMA)
        for _ in range(40):
            w.append(batch)
            assert w.tail.nbytes <= 4 * 1024 * 1024
        assert w.stats.segments >= 10
    with Log(settings, store=local_store) as log:
        assert sum(r.batch.num_rows for r in log.reader(TOPIC, 0).read(0)) == 800_000


def test_a_deleted_topic_keeps_its_mark_and_goes_on_from_there(local_store: LocalStore, tmp_path: Path) -> None:
    with Log(config(tmp_path), store=local_store) as log:
        w = log.writer(TOPIC, SCHEMA)
        w.append(rows(0, 10))
        w.seal()
        w.append(rows(10, 10))
    trim(local_store, TOPIC, 0, needed_from=20, grace_seconds=0, now_ms=2**50)
    local_store.delete([layout.segment_key(TOPIC, 0, 10)])
    shutil.rmtree(tmp_path / "wal" / TOPIC)
    with Log(config(tmp_path), store=local_store) as log:
        assert log.writer(TOPIC, partition=0).append(rows(0, 1)).offset == 10


def test_closing_refuses_what_comes_later(tmp_path: Path) -> None:
    log = Log(config(tmp_path))
    w = log.writer(TOPIC, SCHEMA)
    log.close()
    with pytest.raises(ShutdownError):
        w.append(rows(0, 1))


class Overwriting(LocalStore):
    """A store that overwrites, like a server that ignores `If-None-Match`."""

    def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
        self.delete([key])
        super().put_new(key, data)


def test_a_store_that_overwrites_is_found_out(local_store: LocalStore, s3_store: ObjectStore, tmp_path: Path) -> None:
    check_create_only(local_store, "a")
    check_create_only(s3_store, "a")
    with pytest.raises(StorageError, match="If-None-Match"):
        check_create_only(Overwriting(tmp_path), "a")


def test_settings_of_a_topic_override_those_of_the_log(tmp_path: Path) -> None:
    settings = Config(
        data_dir=tmp_path,
        log=LogConfig(sync="none", seal=SealConfig(max_mb=3)),
        topics={TOPIC: TopicConfig(sync="always", seal=TopicSealConfig(max_rows=7))},
    )
    with Log(settings) as log:
        options = log.writer(TOPIC, SCHEMA).options
        assert (options.sync, options.seal_rows, options.seal_bytes) == ("always", 7, 3 * 1024 * 1024)
        assert log.writer("another", SCHEMA).options.sync == "none"
