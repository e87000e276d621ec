"""Tests that records get from Kafka into log and table exactly once while members and broker fail and return."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from frazil.config.model import Config
from tests.faults.group_members import PARTITIONS, SESSION_SECONDS, Group, Settings, door_settings, s3_settings
from tests.faults.kafka_arrivals import check_log, check_table, few, log_places, moved, wait_until_arrived
from tests.faults.kafka_producer import Producing
from tests.faults.pipeline_fleet import BUSY, MOVED_SECONDS, QUICK, QUICK_TRIM
from tests.pipeline.pipeline_process import PipelineProcess
from tests.pipeline.support import move_all, pipeline_context
from tests.servers.broker import Broker
from tests.servers.kafka import KafkaServer
from tests.servers.shared import S3Server
from tests.servers.spark import SHORT_LIVED

MEMBERS = 2


class Chaos:
    """Does random things to a group: members join, leave, die and hang, and the broker restarts.

    `done` counts them.
    """

    def __init__(self, group: Group, broker: Broker, settings: Settings, chance: random.Random) -> None:
        self.done: dict[str, int] = {}
        self._group = group
        self._broker = broker
        self._settings = settings
        self._chance = chance

    def do(self, deed: str) -> None:
        while len(self._group.members) < MEMBERS:
            self._group.start(self._settings)
        if self._chance.random() < 0.7:
            self._group.wait_for_progress()
        # In the other cases it happens while members start, join or hand over.
        time.sleep(self._chance.uniform(0.0, 1.0))
        getattr(self, f"_{deed}")()
        self.done[deed] = self.done.get(deed, 0) + 1

    def _kill(self) -> None:
        self._group.kill(self._chance.choice(self._group.members))

    def _leave(self) -> None:
        member = self._chance.choice(self._group.members)
        self._group.wait_for(lambda: member.ready, "ready")
        self._group.leave(member)

    def _join(self) -> None:
        self._group.start(self._settings)

    def _freeze(self) -> None:
        """Freezes a member, sometimes for longer than the others wait for it."""
        member = self._chance.choice(self._group.members)
        member.freeze()
        time.sleep(self._chance.uniform(0.5, 2.0) * SESSION_SECONDS)
        member.thaw()

    def _restart_broker(self) -> None:
        self._broker.stop() if self._chance.random() < 0.5 else self._broker.kill()
        self._broker.start()

    def _freeze_broker(self) -> None:
        self._broker.freeze()
        time.sleep(self._chance.uniform(0.5, 2.0) * SESSION_SECONDS)
        self._broker.thaw()


def test_a_few_deaths(own_kafka: Broker, s3_server: S3Server, s3_prefix: str, tmp_path: Path, seed: int) -> None:
    """The table is filled in this process."""
    chance = random.Random(seed)
    deeds = ["kill", "kill", "kill", "leave", "restart_broker"]
    chance.shuffle(deeds)
    kafka = KafkaServer.at(own_kafka.endpoint)
    topic = kafka.create_topic(PARTITIONS)
    settings = door_settings(kafka, topic, s3_settings(s3_server.endpoint, s3_prefix))
    config = Config.model_validate({**settings, "data_dir": tmp_path / "pipeline"})
    with Producing(kafka, topic, PARTITIONS, seed) as producing, Group(tmp_path, kafka, topic) as group:
        chaos = Chaos(group, own_kafka, settings, chance)
        for deed in deeds:
            chaos.do(deed)
        check_committed_is_stored(config, topic, group, producing)
        truth = producing.stop()
        wait_until_arrived(group, truth)
        with pipeline_context(config, seed) as context:
            move_all(context, topic)
        check_log(config, topic, truth)
        check_table(config, topic, truth)


def check_committed_is_stored(config: Config, topic: str, group: Group, producing: Producing) -> None:
    """Checks that what the group has committed is in the log, because it will not be read again."""
    kept = set(producing.kept.copy())
    ends = group.offsets()
    lost = {place for place in kept if place.offset < ends.get(place.partition, 0)} - set(log_places(config, topic))
    assert not lost, f"the group is at {ends}, but these are not stored: {few(lost)}"


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.xdist_group("own-jvm")
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_many_deaths(
    kind: str, own_kafka: Broker, s3_server: S3Server, s3_prefix: str, tmp_path: Path, seed: int
) -> None:
    """A real pipeline runs beside it, which also trims the log."""
    chance = random.Random(seed)
    deeds = ["kill"] * 20 + ["leave"] * 5 + ["join"] * 5 + ["freeze"] * 5 + ["restart_broker"] * 2 + ["freeze_broker"]
    chance.shuffle(deeds)
    kafka = KafkaServer.at(own_kafka.endpoint)
    topic = kafka.create_topic(PARTITIONS)
    s3 = s3_settings(s3_server.endpoint, s3_prefix)
    settings = door_settings(kafka, topic, s3 if kind == "s3" else {"url": str(tmp_path / "store")})
    pipeline_settings = {
        **settings,
        "data_dir": tmp_path / "pipeline",
        "pipeline": {**QUICK, "spark": {**SHORT_LIVED, "spark.master": "local[2]"}},
        "maintenance": BUSY,
        **QUICK_TRIM,
    }
    config = Config.model_validate(pipeline_settings)
    with (
        Producing(kafka, topic, PARTITIONS, seed, pause=0.05) as producing,
        Group(tmp_path, kafka, topic) as group,
        PipelineProcess(config) as pipeline,
    ):
        chaos = Chaos(group, own_kafka, settings, chance)
        for deed in deeds:
            chaos.do(deed)
        truth = producing.stop()
        wait_until_arrived(group, truth)
        pipeline.wait_for(lambda: moved(config, topic), "moved everything", MOVED_SECONDS)
        pipeline.wait_for(lambda: pipeline.health.status == "healthy", "healthy")
        assert pipeline.stop() == 0, pipeline.said
        check_table(config, topic, truth)
        print(f"seed {seed}: {chaos.done}, {len(truth)} records, {len(producing.aborted)} aborted")  # noqa: T201
