"""Several members of one group: partitions change hands, and an owner that comes too late changes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from frazil.config.model import Config
from frazil.doors.kafka.cluster import Cluster
from frazil.doors.kafka.opening import Opener
from frazil.log.log import Log
from tests.doors.kafka.support import numbered, places, running, sealed, settings, until
from tests.servers.kafka import KafkaServer


def member(config: Config, folder: Path) -> Config:
    """The same door on another machine."""
    store = config.store.model_copy(update={"url": str(config.data_dir / "store")})
    return config.model_copy(update={"data_dir": folder, "store": store})


def test_members_share_the_partitions(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=4)
    config = settings(kafka, tmp_path / "a", topic)
    produced = []

    def produce() -> None:
        produced.extend(kafka.produce(topic, numbered(400, 4)))

    with ExitStack() as doors:
        first = doors.enter_context(running(config))
        until(lambda: len(first.door.feeds) == 4)
        produce()
        with running(member(config, tmp_path / "b")) as second:
            until(lambda: len(first.door.feeds) == len(second.door.feeds) == 2)
            produce()
            until(lambda: sealed(first.log, topic) == len(produced))
            assert second.metric("frazil_messages_total", topic=topic) > 0
        produce()
        until(lambda: len(first.door.feeds) == 4)
        until(lambda: sealed(first.log, topic) == len(produced))
        assert places(first.log, topic) == sorted(produced)
        assert first.metric("frazil_kafka_rebalances_total", kind="revoked") >= 1


def test_an_owner_that_is_overtaken_goes_on_behind_the_other(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    produced = kafka.produce(topic, numbered(50))
    config = settings(kafka, tmp_path / "a", topic, buffer={"flush_interval_seconds": 3600})
    with running(config) as door, Log(member(config, tmp_path / "b")) as other:
        until(lambda: [feed.next for feed in door.door.feeds] == [50])
        # Somebody else takes the partition over, as after a rebalance that the first owner has not heard of.
        cluster = Cluster(config.kafka, 10)
        opened = Opener(config, other, cluster).open(topic, 0, cluster.life(topic))
        (feed,) = door.door.feeds
        assert feed.writer
        entries = feed.writer.view().entries
        opened.proof.read = 50
        for entry in entries:
            opened.writer.submit(entry.batch().slice(0, 30), entry.appends[0].origin)
        opened.writer.seal_all()
        other.release(opened.writer)
        feed.writer.hurry()
        until(lambda: door.metric("frazil_kafka_fenced_total", topic=topic) == 1)
        produced += kafka.produce(topic, numbered(50))
        until(lambda: [feed.next for feed in door.door.feeds if feed.writer] == [100])
    assert len(produced) == 100


def test_an_owner_that_hangs_keeps_nobody_out(kafka: KafkaServer, tmp_path: Path) -> None:
    """Also with the same data folder: it is the same machine, and the hanging process is still there."""
    topic = kafka.create_topic()
    config = settings(
        kafka, tmp_path, topic, client={"session.timeout.ms": 1000}, buffer={"flush_interval_seconds": 2}
    )
    produced = kafka.produce(topic, numbered(100))
    hanging = subprocess.Popen(
        [sys.executable, "-m", "tests.doors.kafka.member"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert hanging.stdin
    assert hanging.stdout
    try:
        hanging.stdin.write(config.model_dump_json() + "\n")
        hanging.stdin.flush()
        # It has taken the records, and not sealed them yet.
        assert hanging.stdout.readline() == "took 100\n"
        hanging.send_signal(signal.SIGSTOP)
        with running(config) as door:
            until(lambda: sealed(door.log, topic) == 100)
            hanging.send_signal(signal.SIGCONT)
            produced += kafka.produce(topic, numbered(100))
            until(lambda: sealed(door.log, topic) == 200)
            hanging.stdin.close()
            assert hanging.wait(60) == 0
        with running(config) as door:
            until(lambda: door.reads((topic, 0)))
            assert places(door.log, topic) == produced
    finally:
        hanging.kill()
        hanging.wait()
        hanging.stdout.close()
