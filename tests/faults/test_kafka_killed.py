"""Tests that each record arrives once if the door is killed at any step between Kafka and the group's offsets."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from frazil.config.model import Config
from tests.faults.group_members import PARTITIONS, Group, door_settings
from tests.faults.kafka_arrivals import check_log, wait_until_arrived
from tests.faults.kafka_producer import Producing
from tests.servers.kafka import KafkaServer

DOOR = Path(__file__).parents[2] / "src" / "frazil" / "doors" / "kafka"


def failpoints() -> list[str]:
    """Returns all failpoints of the door, found in the code itself."""
    found = {
        name for module in DOOR.glob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', module.read_text())
    }
    assert len(found) >= 4
    return sorted(found)


def test_killed_somewhere(kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
    check_killed_at(random.Random(seed).choice(failpoints()), kafka, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", failpoints())
def test_killed_at(failpoint: str, kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
    check_killed_at(failpoint, kafka, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("failpoint", ["kafka.appended", "kafka.committed"])
def test_killed_later(failpoint: str, count: int, kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
    check_killed_at(f"{failpoint}:{count}", kafka, tmp_path, seed)


def check_killed_at(failpoint: str, kafka: KafkaServer, folder: Path, seed: int) -> None:
    topic = kafka.create_topic(PARTITIONS)
    settings = door_settings(kafka, topic, {"url": str(folder / "store")})
    with Producing(kafka, topic, PARTITIONS, seed) as producing, Group(folder, kafka, topic) as group:
        doomed = group.start(settings, failpoint)
        group.wait_for(lambda: doomed.ready or not doomed.alive, "ready", mortal=[doomed])
        # Some steps are only passed when another member joins.
        group.start(settings)
        group.wait_for(lambda: not doomed.alive, f"killed at {failpoint}", mortal=[doomed])
        group.kill(doomed)
        truth = producing.stop()
        wait_until_arrived(group, truth)
        check_log(Config.model_validate({**settings, "data_dir": folder / "reader"}), topic, truth)
