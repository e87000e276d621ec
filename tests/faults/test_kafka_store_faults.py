"""Tests that records from Kafka arrive once although the store fails while they are sealed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from frazil.config.model import Config
from tests.faults.group_members import PARTITIONS, Group, door_settings, s3_settings
from tests.faults.kafka_arrivals import check_log, wait_until_arrived
from tests.faults.kafka_producer import Producing
from tests.servers.kafka import KafkaServer
from tests.servers.proxy import Proxy

STORE_SECONDS = 1.0


def misbehave(proxy: Proxy, fault: str, chance: random.Random) -> None:
    rule = proxy.on("PUT", "*.parquet")
    times = chance.randint(1, 8)
    match fault:
        case "error":
            rule.answer(chance.choice([500, 503]), times=times)
        case "lost answer":
            rule.drop_reply(times=times)
        case "late answer":
            rule.delay_reply(2 * STORE_SECONDS, times=times)
        case "late request":
            rule.delay(2 * STORE_SECONDS, times=times)
        case "away":
            proxy.down()
            time.sleep(chance.uniform(0.0, 2 * STORE_SECONDS))
            proxy.up()


FAULTS = ("error", "lost answer", "late answer", "late request", "away")


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_sealing_fails(
    rounds: int, kafka: KafkaServer, s3_prefix: str, s3_proxy: Proxy, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    faults = list(FAULTS) * rounds
    chance.shuffle(faults)
    topic = kafka.create_topic(PARTITIONS)
    settings = door_settings(kafka, topic, s3_settings(s3_proxy.endpoint, s3_prefix, STORE_SECONDS))
    with Producing(kafka, topic, PARTITIONS, seed) as producing, Group(tmp_path, kafka, topic) as group:
        group.start(settings)
        for fault in faults:
            group.wait_for_progress()
            misbehave(s3_proxy, fault, chance)
        truth = producing.stop()
        wait_until_arrived(group, truth)
        patient = s3_settings(s3_proxy.endpoint, s3_prefix)
        reader = Config.model_validate({**settings, "store": patient, "data_dir": tmp_path / "reader"})
        check_log(reader, topic, truth)
