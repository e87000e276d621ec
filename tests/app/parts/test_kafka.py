"""Tests the Kafka door as a part of the process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from frazil.app.parts.kafka import KafkaPart
from frazil.app.parts.log import LogPart
from frazil.config.model import Config
from frazil.errors import ConfigError
from tests.doors.kafka.support import numbered, places, running, settings, until
from tests.servers.kafka import KafkaServer


def parts(config: Config) -> tuple[LogPart, KafkaPart]:
    metrics = CollectorRegistry()
    log = LogPart(config, metrics)
    return log, KafkaPart(config, metrics, lambda: log.log)


def test_it_runs_with_the_log_of_its_process(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    produced = kafka.produce(topic, numbered(10))
    config = settings(kafka, tmp_path, topic, buffer={"flush_interval_seconds": 3600})

    async def run() -> None:
        log, part = parts(config)
        await log.start()
        await part.start()
        await asyncio.to_thread(until, lambda: [feed.next for feed in part.door.feeds] == [10])
        assert part.health().status == "healthy"
        await part.stop()
        await log.stop()

    asyncio.run(run())
    with running(config) as door:
        assert places(door.log, topic) == produced


def test_settings_that_cannot_work_stop_the_start(tmp_path: Path) -> None:
    config = Config.model_validate(
        {
            "data_dir": tmp_path,
            "kafka": {
                "bootstrap_servers": ["127.0.0.1:9"],
                "topics": ["a"],
                "settings": {"enable.auto.commit": True},
            },
        }
    )

    async def run() -> None:
        log, part = parts(config)
        await log.start()
        try:
            await part.start()
        finally:
            await log.stop()

    with pytest.raises(ConfigError, match=r"kafka\.settings\.enable\.auto\.commit"):
        asyncio.run(run())


def test_brokers_that_refuse_or_are_away_are_told_by_health(kafka: KafkaServer, tmp_path: Path) -> None:
    sasl = {name: str(value) for name, value in kafka.sasl.items()}
    servers = [sasl.pop("bootstrap.servers")]
    topic = kafka.create_topic()
    given = settings(kafka, tmp_path, topic, client=sasl, kafka={"bootstrap_servers": servers})
    with running(given) as door:
        until(lambda: door.reads((topic, 0)))
    wrong = settings(
        kafka, tmp_path, topic, client={**sasl, "sasl.password": "wrong"}, kafka={"bootstrap_servers": servers}
    )
    with running(wrong) as door:
        until(lambda: "uthentication" in door.door.health().reason)
    away = settings(kafka, tmp_path, topic, kafka={"bootstrap_servers": ["127.0.0.1:9"]})
    with running(away) as door:
        until(lambda: "Connection refused" in door.door.health().details.get("brokers", ""))
        assert door.door.health().status == "degraded"
