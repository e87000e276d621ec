from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.config.sections.topics import TopicConfig
from frazil.errors import NotBuffered, PartitionFenced
from frazil.formats import kafka
from frazil.hot.queries import HotBuffer
from frazil.log.log import Log
from tests.hot.support import TOPIC, config_of, records, until

Opened = Callable[[Config], tuple[Log, HotBuffer]]
ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@contextmanager
def opening() -> Iterator[Opened]:
    """Opens logs with their buffers, as a process has them."""
    with ExitStack() as stack:

        def open_both(config: Config) -> tuple[Log, HotBuffer]:
            log = stack.enter_context(Log(config))
            return log, stack.enter_context(HotBuffer(config, log))

        yield open_both


@pytest.fixture(autouse=True)
def quick_to_discover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.hot.follower.DISCOVER_SECONDS", 0.1)
    monkeypatch.setattr("frazil.hot.follower.POLL_SECONDS", (0.05, 0.1))


@pytest.fixture
def opened() -> Iterator[Opened]:
    with opening() as open_both:
        yield open_both


def values(hot: HotBuffer, partition: int = 0, start: int | None = None) -> list[str]:
    found = hot.query_range(TOPIC, partition, start).rows
    return [value.decode() for value in found["value"].to_pylist()]


def end(hot: HotBuffer, partition: int = 0) -> int:
    buffered = hot.buffer.topic(TOPIC).get(partition)
    return buffered.contents.end if buffered else -1


def rows(hot: HotBuffer) -> int:
    """Returns the rows in memory, including those that were read back."""
    return sum(buffered.contents.rows for buffered in hot.buffer.topic(TOPIC).values())


def test_appends_are_seen_before_they_are_stored(tmp_path: Path, opened: Opened) -> None:
    log, hot = opened(config_of(tmp_path))
    writer = log.writer(TOPIC, kafka.SCHEMA, partition=4)
    pending = writer.submit(records([10, 12, 13], partition=4))
    until(lambda: end(hot, 4) == 3)
    row = hot.query_by_key(TOPIC, "k12")
    assert row is not None
    assert row.to_pylist()[0] | {"_kafka_timestamp": None} == {
        "_kafka_key": b"k12",
        "_kafka_headers": None,
        "_kafka_timestamp": None,
        "_kafka_timestamp_type": 0,
        "_kafka_partition": 4,
        "_kafka_offset": 12,
        "value": b"v12",
        "_log_partition": 4,
        "_offset": 1,
    }
    assert not pending.done(), "nothing is sealed yet"
    assert hot.query_by_offset(TOPIC, 4, 11) is None, "Kafka's offsets have gaps"
    writer.seal()
    assert pending.result().offset == 0
    until(lambda: hot.buffer.unsealed_bytes == 0)
    assert values(hot, 4) == ["v10", "v12", "v13"]


def test_rows_of_a_fenced_writer_are_gone_at_once(tmp_path: Path, opened: Opened) -> None:
    log, hot = opened(config_of(tmp_path))
    writer = log.writer(TOPIC, kafka.SCHEMA, partition=0)
    writer.submit(records([0, 1]))
    writer.seal()
    writer.submit(records([2, 3]))
    until(lambda: end(hot) == 4)
    elsewhere = config_of(tmp_path).model_copy(update={"data_dir": tmp_path / "elsewhere"})
    with Log(elsewhere) as other:
        winner = other.writer(TOPIC, partition=0)
        winner.submit(records([2], values=[b"theirs"]))
        winner.seal()
    with pytest.raises(PartitionFenced):
        writer.seal()
    # There is no wait here: a reader must not see records after the fence that never became part of the log.
    assert hot.query_by_key(TOPIC, "k3") is None
    found = hot.query_by_key(TOPIC, "k2")
    assert found is None or found["value"].to_pylist() == [b"theirs"]
    writer.resume()
    writer.submit(records([3], values=[b"ours again"]))
    until(lambda: end(hot) == 4)
    until(lambda: values(hot) == ["v0", "v1", "theirs", "ours again"])
    assert hot.buffer.stats(TOPIC).dropped >= 2


def test_rows_that_a_released_writer_never_stored_are_gone(tmp_path: Path, opened: Opened) -> None:
    log, hot = opened(config_of(tmp_path))
    writer = log.writer(TOPIC, kafka.SCHEMA, partition=0)
    writer.submit(records([0]))
    writer.seal()
    writer.submit(records([1]))
    until(lambda: end(hot) == 2)
    log.release(writer)
    until(lambda: end(hot) == 1)
    assert hot.query_by_key(TOPIC, "k1") is None
    back = log.writer(TOPIC, partition=0)
    back.submit(records([1], values=[b"once more"]))
    until(lambda: rows(hot) == 2)
    assert values(hot) == ["v0", "once more"]


def test_a_partition_that_moves_on_is_followed_and_comes_back(tmp_path: Path, opened: Opened) -> None:
    """Two members of a group have a buffer each."""
    first_log, first = opened(config_of(tmp_path))
    second_log, second = opened(config_of(tmp_path).model_copy(update={"data_dir": tmp_path / "second"}))
    writer = first_log.writer(TOPIC, kafka.SCHEMA, partition=0)
    writer.submit(records([0, 1]))
    writer.seal()
    until(lambda: end(second) == 2 and values(second) == ["v0", "v1"])
    first_log.release(writer)
    moved = second_log.writer(TOPIC, partition=0)
    moved.submit(records([2]))
    until(lambda: values(second) == ["v0", "v1", "v2"])
    assert second.query_by_key(TOPIC, "k2") is not None
    assert first.query_by_key(TOPIC, "k2") is None, "only its owner sees what is not sealed"
    moved.seal()
    until(lambda: end(first) == 3)
    assert values(first) == ["v0", "v1", "v2"]
    second_log.release(moved)
    again = first_log.writer(TOPIC, partition=0)
    again.submit(records([3]))
    until(lambda: values(first) == ["v0", "v1", "v2", "v3"])


def test_a_restart_does_not_empty_the_buffer(tmp_path: Path) -> None:
    config = config_of(tmp_path, max_size_mb=4)
    with opening() as opened:
        log, hot = opened(config)
        writers = [log.writer(TOPIC, kafka.SCHEMA, partition=partition) for partition in range(2)]
        for batch in range(4):
            for writer in writers:
                offsets = range(batch * 10, batch * 10 + 10)
                writer.submit(records(offsets, partition=writer.partition))
                writer.seal()
        for writer in writers:
            writer.submit(records([40], partition=writer.partition))
        until(lambda: end(hot) == 41)
    with opening() as opened:
        log, hot = opened(config)
        written = log.writer(TOPIC, partition=0)
        written.submit(records([41]))
        until(lambda: end(hot, 0) == 42 and end(hot, 1) == 41)
        until(lambda: all(buffered.contents.start == 0 for buffered in hot.buffer.topic(TOPIC).values()))
        assert values(hot, 0) == [f"v{i}" for i in range(42)]
        assert values(hot, 1) == [f"v{i}" for i in range(41)]
        assert hot.query_by_key(TOPIC, "k0") is not None
        written.seal()


def test_what_is_too_old_or_too_much_is_not_read_back(tmp_path: Path) -> None:
    large = [b"v" * 1000] * 1000
    with opening() as opened:
        log, _ = opened(config_of(tmp_path))
        writer = log.writer(TOPIC, kafka.SCHEMA, partition=0)
        for batch in range(6):
            offsets = range(batch * 1000, batch * 1000 + 1000)
            writer.submit(records(offsets, values=[bytes([i % 256]) + v for i, v in enumerate(large)]))
            writer.seal()
    with opening() as opened:
        _, hot = opened(config_of(tmp_path, max_size_mb=2))
        until(lambda: end(hot) == 6000 and not hot.follower.filling)
        buffered = hot.buffer.topic(TOPIC)[0]
        assert 0 < buffered.contents.start < 6000
        assert hot.buffer.nbytes <= hot.buffer.max_bytes
        with pytest.raises(NotBuffered, match="cold=true") as told:
            hot.query_range(TOPIC, 0, 0)
        assert told.value.first == buffered.contents.start
        assert hot.query_range(TOPIC, 0, buffered.contents.start, limit=5).rows.num_rows == 5
    with opening() as opened:
        _, hot = opened(config_of(tmp_path, ttl_seconds=0.001))
        until(lambda: end(hot) == 6000 and not hot.follower.filling)
        assert hot.buffer.topic(TOPIC)[0].contents.rows == 0


@pytest.mark.parametrize("sealed", [False, True])
def test_topics_with_a_wal(tmp_path: Path, opened: Opened, sealed: bool) -> None:
    """Offsets are the log's own, and a column has the keys. Another process on the machine sees all that is
    stored."""
    config = config_of(tmp_path, ack="local", key_column="id")
    log, hot = opened(config)
    other_config = config.model_copy(update={"topics": {TOPIC: TopicConfig(key_column="name")}})
    _, other = opened(other_config)
    writer = log.writer(TOPIC, ROWS)
    for i in range(5):
        writer.append(pa.record_batch([[i, 7], [f"n{i}", None]], schema=ROWS))
        if sealed:
            writer.seal_all()
    until(lambda: rows(hot) == rows(other) == 10)
    row = hot.query_by_key(TOPIC, "7")
    assert row is not None
    assert row.to_pylist() == [{"id": 7, "name": None, "_log_partition": 0, "_offset": 9}]
    by_name = other.query_by_key(TOPIC, "n3")
    assert by_name is not None
    assert by_name.to_pylist() == [{"id": 3, "name": "n3", "_log_partition": 0, "_offset": 6}]
    found = other.query_by_offset(TOPIC, 0, 2)
    assert found is not None
    assert found["id"].to_pylist() == [1]
    until(lambda: not any(block.borrowed for block in hot.buffer.topic(TOPIC)[0].contents.blocks) or not sealed)


def test_what_hardly_anybody_looks_up_is_held_once_somebody_has_and_until_it_is_sealed(
    tmp_path: Path, opened: Opened
) -> None:
    log, hot = opened(config_of(tmp_path, ack="local"))
    options = replace(log.options(TOPIC), looked_up=False)
    writer = log.writer(TOPIC, kafka.SCHEMA, options=options)
    writer.append(records([0, 1, 2]))
    until(lambda: TOPIC in hot.buffer.topics and hot.buffer.topic(TOPIC)[0].source is not None)
    hot.follower.step()
    assert hot.buffer.nbytes == 0
    assert values(hot) == ["v0", "v1", "v2"]
    writer.seal()
    until(lambda: hot.buffer.nbytes == 0)
    with pytest.raises(NotBuffered):
        hot.query_range(TOPIC, 0, 0)
    writer.append(records([3]))
    until(lambda: end(hot) == 4)
    assert values(hot, start=3) == ["v3"]
    writer.seal()
    log.release(writer)
    until(lambda: hot.buffer.nbytes == 0)
    writer = log.writer(TOPIC, kafka.SCHEMA, options=options)
    writer.append(records([4]))
    until(lambda: end(hot) == 5)
    assert hot.buffer.topic(TOPIC)[0].contents.rows == 1, "what is older is not read again"
