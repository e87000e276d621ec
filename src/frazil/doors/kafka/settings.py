"""Makes the settings of the Kafka client and of the partitions' writers from those of Frazil."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, TypeVar

from confluent_kafka import Consumer, KafkaException

from frazil.config.model import Config
from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.said import client_logger
from frazil.errors import ConfigError
from frazil.formats.kafka import HEADERS, OFFSET, PARTITION, TIMESTAMP, TIMESTAMP_TYPE
from frazil.log import layout
from frazil.log.segments.segment import Encoding
from frazil.log.writer.options import WriterOptions

T = TypeVar("T")

Reset = Literal["earliest", "latest", "error"]

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Kafka keeps these topics for itself."""

MAX_RECORD_BYTES = 1024 * 1024 * 1024
"""A record that Kafka has accepted is accepted here too, however large it is."""

MOST_RECONNECT_MS = 10_000
"""A broker that is back should be noticed sooner than a long delay between other tries would allow."""

ENCODING = Encoding(
    dictionary=(TIMESTAMP_TYPE, PARTITION, f"{HEADERS}.list.element.key"),
    ascending=(TIMESTAMP, OFFSET),
)
"""This takes half the time of the default, as measured, and less space. Keys may repeat, but segments soon go."""

_DEFAULTS = {
    "client.id": "frazil",
    "isolation.level": "read_committed",
    # New topics of a pattern, new partitions and deleted topics are noticed within this time.
    "topic.metadata.refresh.interval.ms": "10000",
    "socket.keepalive.enable": "true",
    # Brokers close idle connections, which is not worth a line in the log.
    "log.connection.close": "false",
    # The client's own queue is large enough to go on with while a batch is appended. When it is full, the client
    # would pause for a whole second by default.
    "queued.max.messages.kbytes": "65536",
    "fetch.queue.backoff.ms": "20",
}

_OURS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "partition.assignment.strategy": "cooperative-sticky",
    "enable.partition.eof": "true",
}
"""Exactly-once needs these: with other values the client would skip or repeat records behind our back."""

_ELSEWHERE = {
    "group.id": "kafka.consumer_group",
    "bootstrap.servers": "kafka.bootstrap_servers",
    "metadata.broker.list": "kafka.bootstrap_servers",
}

_RESETS: Mapping[str, Reset] = {
    "smallest": "earliest",
    "earliest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "latest": "latest",
    "end": "latest",
    "error": "error",
}
_RESET = "auto.offset.reset"
_BLACKLIST = "topic.blacklist"


def is_pattern(name: str) -> bool:
    return name.startswith("^")


def named_topics(kafka: KafkaConfig) -> list[str]:
    """Return the topics that are named one by one. The client takes care of patterns."""
    return [name for name in kafka.topics if not is_pattern(name)]


def check_name(name: str) -> None:
    """Raise `ConfigError` for a name that `kafka.topics` cannot have."""
    try:
        layout.check_topic(name)
    except ConfigError as error:
        raise ConfigError(f"kafka.topics: {error} A regular expression begins with ^.") from None
    if name in INTERNAL:
        raise ConfigError(f"kafka.topics: {name} is a topic that Kafka keeps for itself.")


def check_settings(config: Config) -> None:
    """Raise `ConfigError` for settings that are wrong, as far as that can be known without asking the cluster."""
    kafka = config.kafka
    if not kafka.bootstrap_servers:
        return
    for name in named_topics(kafka):
        writer_options(config, name)
    settings = consumer_settings(kafka)
    # Without brokers the client checks its settings and asks nobody.
    del settings["bootstrap.servers"]
    create(lambda: Consumer(settings, logger=client_logger()), kafka).close()
    for pattern in filter(is_pattern, kafka.topics):
        check_pattern(pattern)


def check_pattern(pattern: str) -> None:
    """Let the client check a pattern. It has its own regular expressions, and does not say what is wrong with one."""
    consumer = Consumer({"group.id": "frazil"}, logger=client_logger())
    try:
        consumer.subscribe([pattern])
    except KafkaException as refused:
        raise ConfigError(
            f"kafka.topics: {pattern!r} is no regular expression: look for brackets that are not closed, and for "
            f"signs of repetition with nothing before them."
        ) from refused
    finally:
        consumer.close()


def reset_policy(kafka: KafkaConfig) -> Reset:
    """Return the policy that says where a partition begins that was never read."""
    given = kafka.settings.get(_RESET, "earliest")
    if given not in _RESETS:
        raise _wrong(_RESET, f"{given!r} is none of {', '.join(_RESETS)}")
    return _RESETS[given]


def common_settings(kafka: KafkaConfig) -> dict[str, str]:
    """Return what every client of the cluster needs. Clients ignore settings that are for consumers only."""
    for name, key in _ELSEWHERE.items():
        if name in kafka.settings:
            raise _wrong(name, f"is set by {key}")
    base = kafka.retry.base_delay_ms
    longest = max(base, min(int(kafka.retry.max_delay_seconds * 1000), MOST_RECONNECT_MS))
    return {
        **_DEFAULTS,
        "reconnect.backoff.ms": str(base),
        "reconnect.backoff.max.ms": str(longest),
        **{name: value for name, value in kafka.settings.items() if name != _RESET},
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
    }


def consumer_settings(kafka: KafkaConfig) -> dict[str, str]:
    """Return the consumer's settings. Raises `ConfigError` for wrong topics, and for what breaks exactly-once."""
    for name in named_topics(kafka):
        check_name(name)
    return member_settings(kafka)


def member_settings(kafka: KafkaConfig) -> dict[str, str]:
    """Return what a member of the consumer group needs, whatever its topics are."""
    reset_policy(kafka)
    ours = dict(_OURS)
    if kafka.settings.get("group.protocol") == "consumer":
        # In this protocol the brokers assign partitions, and do so cooperatively.
        del ours["partition.assignment.strategy"]
    for name, value in ours.items():
        if kafka.settings.get(name, value) != value:
            raise _wrong(name, f"must be {value}: the log keeps the positions, so that each record is stored once")
    hidden = ",".join(f"^{name}$" for name in INTERNAL)
    given = kafka.settings.get(_BLACKLIST)
    return {
        **common_settings(kafka),
        **ours,
        "group.id": kafka.consumer_group,
        # Frazil decides where to begin; the client must never decide it by itself.
        _RESET: "error",
        _BLACKLIST: f"{given},{hidden}" if given else hidden,
    }


def create(make: Callable[[], T], kafka: KafkaConfig) -> T:
    """Make a client. Raises a `ConfigError` that names the setting which the client refuses."""
    try:
        return make()
    except (KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        name = next((each for each in kafka.settings if f'"{each}"' in said or f" {each} " in f" {said} "), None)
        raise ConfigError(f"kafka.settings{f'.{name}' if name else ''}: {said}.") from error


def writer_options(config: Config, topic: str) -> WriterOptions:
    """Return the options of a partition's writer. It needs no WAL, because Kafka keeps what is not sealed yet."""
    settings = config.topic(topic)
    if settings.ack == "local" and "ack" in settings.model_fields_set:
        raise ConfigError(
            f"topics.{topic}.ack: a topic from Kafka has no WAL, because Kafka keeps what is not sealed; leave it "
            f"out, or write `object`."
        )
    options = WriterOptions.of(config.log, settings)
    return replace(
        options,
        ack="object",
        exclusive=False,
        encoding=ENCODING,
        max_append_bytes=MAX_RECORD_BYTES,
        seal_seconds=settings.seal.interval_seconds or config.buffer.flush_interval_seconds,
        seal_rows=settings.seal.max_rows or config.buffer.flush_batch_size,
    )


def _wrong(name: str, why: str) -> ConfigError:
    return ConfigError(f"kafka.settings.{name}: {why}.")
