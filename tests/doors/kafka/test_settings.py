"""Which settings reach the Kafka client, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.config.model import Config
from frazil.config.sections.kafka import KafkaConfig
from frazil.config.sections.section import MIB
from frazil.doors.kafka.client import Client
from frazil.doors.kafka.settings import consumer_settings, reset_policy, writer_options
from frazil.errors import ConfigError


def kafka(*topics: str, **settings: object) -> KafkaConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return KafkaConfig.model_validate(
        {"bootstrap_servers": ["a:1", "b:2"], "topics": topics or ["orders"], "settings": named}
    )


def test_settings_of_the_client_pass_through_by_their_names() -> None:
    given = consumer_settings(
        kafka(security_protocol="sasl_ssl", isolation_level="read_uncommitted", fetch_min_bytes=7)
    )
    assert given["security.protocol"] == "sasl_ssl"
    assert given["isolation.level"] == "read_uncommitted"
    assert given["fetch.min.bytes"] == "7"
    assert given["bootstrap.servers"] == "a:1,b:2"


def test_what_exactly_once_needs_is_set() -> None:
    given = consumer_settings(kafka(enable_auto_commit="false", auto_offset_reset="latest"))
    assert given["enable.auto.commit"] == given["enable.auto.offset.store"] == "false"
    assert given["partition.assignment.strategy"] == "cooperative-sticky"
    assert given["isolation.level"] == "read_committed"
    # The client itself must never jump anywhere.
    assert given["auto.offset.reset"] == "error"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("enable_auto_commit", "true", "must be false"),
        ("enable_auto_offset_store", "true", "must be false"),
        ("partition_assignment_strategy", "range", "must be cooperative-sticky"),
        ("group_id", "mine", "kafka.consumer_group"),
        ("bootstrap_servers", "c:3", "kafka.bootstrap_servers"),
        ("auto_offset_reset", "sometime", "none of smallest, earliest"),
    ],
)
def test_what_would_break_exactly_once_is_refused(name: str, value: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        consumer_settings(kafka(**{name: value}))
    assert str(refused.value).startswith(f"kafka.settings.{name.replace('_', '.')}: ")


@pytest.mark.parametrize("topic", ["-orders", "__consumer_offsets", "__transaction_state"])
def test_topics_that_cannot_be_are_refused(topic: str) -> None:
    with pytest.raises(ConfigError, match=rf"^kafka\.topics: .*{topic}"):
        consumer_settings(kafka(topic))


def test_a_pattern_that_lacks_its_sign_is_hinted_at() -> None:
    with pytest.raises(ConfigError, match=r"'sensor\*' cannot be a topic: .* A regular expression begins with \^\."):
        consumer_settings(kafka("sensor*"))


def test_internal_topics_are_hidden_from_patterns() -> None:
    given = consumer_settings(kafka("^.*", topic_blacklist="^secret"))
    assert given["topic.blacklist"].split(",")[:2] == ["^secret", "^__consumer_offsets$"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"no_such_thing": 1}, "no.such.thing"), ({"fetch_wait_max_ms": "soon"}, "fetch.wait.max.ms")],
)
def test_what_the_client_does_not_know_is_told_by_its_name(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^kafka\.settings\.{name}: "):
        Client(kafka(**settings), lambda _: None, lambda *_: None)


def test_where_to_begin() -> None:
    assert [reset_policy(kafka(auto_offset_reset=each)) for each in ("smallest", "end", "error")] == [
        "earliest",
        "latest",
        "error",
    ]
    assert reset_policy(kafka()) == "earliest"


def test_writers_need_no_wal_and_seal_as_the_buffer_says() -> None:
    config = Config.model_validate(
        {
            "buffer": {"flush_interval_seconds": 3, "flush_batch_size": 500},
            "log": {"seal": {"max_mb": 8}},
            "topics": {"slow": {"seal": {"interval_seconds": 60}}, "kept": {"ack": "local"}},
        }
    )
    options = writer_options(config, "orders")
    assert (options.ack, options.exclusive) == ("object", False)
    assert (options.seal_seconds, options.seal_rows, options.seal_bytes) == (3, 500, 8 * MIB)
    assert writer_options(config, "slow").seal_seconds == 60
    with pytest.raises(ConfigError, match=r"^topics\.kept\.ack: "):
        writer_options(config, "kept")
