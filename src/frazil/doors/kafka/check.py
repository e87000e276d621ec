"""Checks everything that the Kafka door needs, before it runs. Nothing is consumed, and nothing is left behind."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, KafkaException, TopicPartition

from frazil.backoff import Backoff
from frazil.config.model import Config
from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.cluster import Cluster, Life
from frazil.doors.kafka.failures import translated
from frazil.doors.kafka.opening import not_from_kafka
from frazil.doors.kafka.said import client_logger
from frazil.doors.kafka.settings import (
    INTERNAL,
    check_name,
    check_pattern,
    create,
    is_pattern,
    member_settings,
    named_topics,
    writer_options,
)
from frazil.errors import (
    ConfigError,
    FrazilError,
    FrazilIoError,
    IcebergError,
    KafkaError,
    KafkaRefused,
    KafkaTopicMissing,
    RegistryError,
    StorageError,
)
from frazil.formats.kafka import is_kafka
from frazil.formats.registry.client import Registry
from frazil.lake.catalog.lake import Lake
from frazil.log import layout
from frazil.log.topics.naming import hint
from frazil.log.topics.schemas import TopicSchemas
from frazil.ops.retry import retrying
from frazil.store import open_store
from frazil.store.probe import check_create_only

ANSWER_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
"""A check ends after this time, if it has no shorter limit of its own."""

_COORDINATOR = Backoff(base_seconds=0.2, longest_seconds=1.0, max_attempts=4)
"""A cluster without groups creates the topic of group offsets when it is asked first, and refuses meanwhile."""

_NEED_REGISTRY = frozenset({"avro", "protobuf", "json_schema"})
_SHOWN = 5

_ADVICE: tuple[tuple[type[FrazilError], str], ...] = (
    (ConfigError, "Correct the setting."),
    (RegistryError, "Look at `kafka.registry`: address, user, certificates."),
    (KafkaTopicMissing, "Create the topic, or correct its name in `kafka.topics`."),
    (
        KafkaRefused,
        "Look at `security.protocol`, `sasl.*` and `ssl.*` in `kafka.settings`, and at the rights of the user: Read "
        "and Describe on the topics, Read on the group.",
    ),
    (
        KafkaError,
        "Look at `kafka.bootstrap_servers` and `security.protocol`; the brokers' advertised addresses must be "
        "reachable from here.",
    ),
    (IcebergError, "Look at `lake.properties`, or PyIceberg's own settings."),
    (StorageError, "Look at `store`: address, options, credentials."),
    (FrazilIoError, "Look at `data_dir` and `store.url`: the folder must be writable."),
)


@dataclass(frozen=True)
class Finding:
    what: str
    told: str
    """Says what was found, or what went wrong."""
    error: FrazilError | None = None
    hint: str = ""
    """Says, as a sentence, which name may have been meant."""

    @property
    def advice(self) -> str:
        if self.error is None:
            return ""
        return next((text for kind, text in _ADVICE if isinstance(self.error, kind)), "") + self.hint


def check_all(config: Config) -> list[Finding]:
    """Return all findings, in the order in which things are needed."""
    if not config.kafka.bootstrap_servers:
        raise ConfigError("kafka.bootstrap_servers: there are none, so there is no Kafka door to check.")
    checks: dict[str, Callable[[], list[Finding]]] = {
        "brokers": lambda: _kafka(config),
        "catalog": lambda: [Finding("catalog", _catalog(config))],
        "store": lambda: [Finding("store", _store(config))],
    }
    if needs_registry(config):
        checks["schema registry"] = lambda: [Finding("schema registry", Registry.of(config).check())]
    threads = ThreadPoolExecutor(len(checks), thread_name_prefix="check")
    under_way = {what: threads.submit(check) for what, check in checks.items()}
    threads.shutdown(wait=False)
    order = ("brokers", "schema registry", "catalog", "store")
    return [finding for what in order if what in under_way for finding in _outcome(what, under_way[what])]


def needs_registry(config: Config) -> bool:
    formats = [config.kafka.format, *(topic.format for topic in config.topics.values() if topic.format)]
    return any(_NEED_REGISTRY & {each.key, each.value} for each in formats)


def _outcome(what: str, check: Future[list[Finding]]) -> list[Finding]:
    try:
        return check.result(PATIENCE_SECONDS)
    except FrazilError as error:
        return [Finding(what, str(error), error)]
    except FutureTimeout:
        silent = FrazilError(f"no answer within {PATIENCE_SECONDS:g} s")
        return [Finding(what, str(silent), silent)]


def _catalog(config: Config) -> str:
    lake = Lake(config)
    try:
        lake.check()
        return lake.where
    finally:
        lake.close()


def _store(config: Config) -> str:
    store = open_store(config.store, config.data_dir)
    check_create_only(store, uuid.uuid4().hex)
    return f"{store.url}; an object is created once"


def _kafka(config: Config) -> list[Finding]:
    cluster = Cluster(config.kafka, ANSWER_SECONDS)
    there = sorted(name for name in cluster.topics() if name not in INTERNAL)
    found = [Finding("brokers", f"{', '.join(config.kafka.bootstrap_servers)}: cluster {cluster.id()}")]
    for entry in config.kafka.topics:
        check = _pattern if is_pattern(entry) else _named
        found += check(config, cluster, entry, there)
    found.append(_group(config, there))
    return found


def _pattern(config: Config, cluster: Cluster, pattern: str, there: Sequence[str]) -> Iterator[Finding]:
    """Check a pattern. The client's own regular expressions agree with Python's in all usual patterns."""
    what = f"topics {pattern}"
    try:
        check_pattern(pattern)
        matching = re.compile(pattern)
    except ConfigError as error:
        yield Finding(what, str(error), error)
        return
    except re.error:
        yield Finding(what, "only the client understands it: what matches is seen when it runs")
        return
    names = [name for name in there if matching.search(name)]
    if not names:
        yield Finding(what, "matches no topic yet; those that come later are consumed")
        return
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    yield Finding(what, f"{len(names)} match: {shown}")
    for name in names:
        finding = _topic(config, cluster, name)
        if finding.error:
            yield finding


def _named(config: Config, cluster: Cluster, name: str, there: Sequence[str]) -> Iterator[Finding]:
    try:
        check_name(name)
    except ConfigError as error:
        yield Finding(f"topic {name}", str(error), error)
        return
    finding = _topic(config, cluster, name)
    missing = isinstance(finding.error, KafkaTopicMissing)
    yield replace(finding, hint=hint(name, there)) if missing else finding


def _topic(config: Config, cluster: Cluster, name: str) -> Finding:
    what = f"topic {name}"
    try:
        layout.check_topic(name)
        writer_options(config, name)
        if _has_other_records(config, name):
            raise not_from_kafka(config, name)
        life = cluster.life(name)
        if name not in cluster.readable([name]):
            raise KafkaRefused(f"The user may see topic {name!r}, but not read it.")
        return Finding(what, _extent(cluster, name, life))
    except FrazilError as error:
        return Finding(what, str(error), error)


def _has_other_records(config: Config, topic: str) -> bool:
    """Tell whether the log has a topic of this name that did not come from Kafka."""
    try:
        newest = TopicSchemas(open_store(config.store, config.data_dir), topic).latest()
    except (StorageError, FrazilIoError):
        # Another check reports on the store.
        return False
    return newest is not None and not is_kafka(newest.schema)


def _extent(cluster: Cluster, name: str, life: Life) -> str:
    bounds = cluster.bounds([(name, partition) for partition in range(life.partitions)]).values()
    offsets = sum(high - low for low, high in bounds)
    return f"{life.partitions} partition{'s' if life.partitions != 1 else ''}, {offsets:,} offsets there"


def _group(config: Config, there: Sequence[str]) -> Finding:
    """Check that the group's offsets can be read, which needs the same permission as joining the group."""
    kafka = config.kafka
    what = f"consumer group {kafka.consumer_group}"
    try:
        known = retrying(lambda: _has_offsets(kafka, there), _COORDINATOR, random.Random())
        return Finding(what, "has read before" if known else "is new")
    except FrazilError as error:
        return Finding(what, str(error), error)


def _has_offsets(kafka: KafkaConfig, there: Sequence[str]) -> bool:
    consumer = create(lambda: Consumer(member_settings(kafka), logger=client_logger()), kafka)
    try:
        names = [name for name in named_topics(kafka) if name in there] or ["frazil-check"]
        places = [TopicPartition(name, 0) for name in names]
        return any(each.offset >= 0 for each in consumer.committed(places, ANSWER_SECONDS))
    except KafkaException as error:
        raise translated(error, f"Asking for the offsets of group {kafka.consumer_group!r}") from error
    finally:
        consumer.close()
