"""Tests `frazil kafka check`, and `frazil topics resume` of a Kafka topic, as people run them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

from frazil.errors import SchemaMismatch
from tests.cli.support import frazil
from tests.doors.kafka.support import numbered, running, sealed, settings, until
from tests.servers.kafka import KafkaServer


def write(folder: Path, **sections: dict[str, Any]) -> None:
    (folder / "frazil.yaml").write_text(json.dumps({"data_dir": "data", **sections}))


def checked(folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    result = frazil(folder, "kafka", "check", "--output", "json")
    return result.returncode, {each["check"]: each for each in json.loads(result.stdout)}


def test_all_is_well(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, numbered(10, 3))
    write(tmp_path, kafka={"bootstrap_servers": [kafka.bootstrap], "topics": [topic, f"^{topic}$", "^no-such-"]})
    code, found = checked(tmp_path)
    assert code == 0
    assert all(each["ok"] for each in found.values())
    assert found[f"topic {topic}"]["found"] == "3 partitions, 10 offsets there"
    assert found[f"topics ^{topic}$"]["found"] == f"1 match: {topic}"
    assert found["topics ^no-such-"]["found"] == "matches no topic yet; those that come later are consumed"
    result = frazil(tmp_path, "kafka", "check")
    assert (result.returncode, result.stderr) == (0, "")
    assert "failed" not in result.stdout


def test_what_is_wrong_is_said_once_with_advice_below_it(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    near = f"{topic}s"
    write(tmp_path, kafka={"bootstrap_servers": [kafka.bootstrap], "topics": [near, "sensor*", "^[a"]})
    result = frazil(tmp_path, "kafka", "check")
    assert result.returncode == 2
    assert result.stderr == f"frazil: 3 of 7 checks failed: topic {near}, topic sensor*, topics ^[a.\n"
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        *("check", "brokers", "topic", "→", "topic", "→", "topics", "→", "consumer", "catalog", "store")
    ]
    assert f"has no topic '{near}'" in lines[2]
    assert f"Did you mean '{topic}'" in lines[3]
    assert "A regular expression begins with ^." in lines[4]


def test_a_topic_of_the_log_that_did_not_come_from_kafka(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    (tmp_path / "orders.jsonl").write_text('{"id": 1}\n')
    write(tmp_path, kafka={"bootstrap_servers": [kafka.bootstrap], "topics": [topic]})
    assert frazil(tmp_path, "load", topic, "orders.jsonl").returncode == 0
    code, found = checked(tmp_path)
    assert (code, found[f"topic {topic}"]["kind"]) == (SchemaMismatch.exit_code, "SchemaMismatch")
    assert found[f"topic {topic}"]["found"] == (
        f"There is a topic {topic!r} already, with records that did not come from Kafka. Leave one of the two out, "
        f"or give this Frazil another `data_dir`."
    )


def test_a_server_of_another_kind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_as_a_web_server, args=(server,), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        write(tmp_path, kafka={"bootstrap_servers": [address], "topics": ["orders"]})
        code, found = checked(tmp_path)
    assert code == 2
    assert f"{address} does not speak Kafka, but HTTP" in found["brokers"]["found"]


def _answer_as_a_web_server(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


def test_each_failure_is_told_and_the_first_decides_the_exit_code(kafka: KafkaServer, tmp_path: Path) -> None:
    servers = {"bootstrap_servers": [kafka.bootstrap], "topics": ["no-such-topic"]}
    write(
        tmp_path, kafka=servers, store={"url": "/dev/null/store"}, lake={"properties": {"uri": "http://127.0.0.1:9"}}
    )
    code, found = checked(tmp_path)
    assert code == 2
    assert {name for name, each in found.items() if not each["ok"]} == {"topic no-such-topic", "catalog", "store"}
    assert found["topic no-such-topic"]["kind"] == "KafkaTopicMissing"
    assert all(each["advice"] for each in found.values() if not each["ok"])
    write(tmp_path, kafka={**servers, "topics": ["^none"]}, store={"url": "/dev/null/store"})
    assert checked(tmp_path)[0] == 4


def test_brokers_that_do_not_answer_or_refuse_do_not_hang_it(kafka: KafkaServer, tmp_path: Path) -> None:
    avro = {"format": {"value": "avro"}, "registry": {"url": "http://127.0.0.1:9"}}
    write(tmp_path, kafka={"bootstrap_servers": ["127.0.0.1:9"], "topics": ["orders"], **avro})
    code, found = checked(tmp_path)
    assert code == 2
    assert found["brokers"]["kind"] == "ConnectionFailed"
    assert found["schema registry"]["kind"] == "RegistryUnavailable"
    refused = {**{name: str(value) for name, value in kafka.sasl.items()}, "sasl.password": "wrong"}
    servers = [refused.pop("bootstrap.servers")]
    write(tmp_path, kafka={"bootstrap_servers": servers, "topics": ["orders"], "settings": refused})
    code, found = checked(tmp_path)
    assert (code, found["brokers"]["kind"]) == (2, "KafkaRefused")


def test_without_brokers_there_is_nothing_to_check(tmp_path: Path) -> None:
    write(tmp_path)
    result = frazil(tmp_path, "kafka", "check")
    assert (result.returncode, result.stdout) == (1, "")
    assert "kafka.bootstrap_servers" in result.stderr


def test_resuming_a_topic_of_which_kafka_has_lost_records(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(10))
    config = settings(kafka, tmp_path / "data", topic)
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 10)
    kafka.produce(topic, numbered(10))
    kafka.delete_records(topic, 0, 15)
    write(tmp_path, kafka={"bootstrap_servers": [kafka.bootstrap], "topics": [topic]})
    result = frazil(tmp_path, "topics", "resume", topic)
    assert result.returncode == 0
    assert f"{topic} needs a decision about Kafka's partition 0: {topic}/0: offset 10 comes next" in result.stdout
    result = frazil(tmp_path, "topics", "resume", topic, "--accept")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{topic}/0 goes on at Kafka's offset 15.\n{topic} can go on")
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 15)
