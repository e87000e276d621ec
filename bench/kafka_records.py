"""Starts a Kafka broker and fills its topics with records."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer
from tests.servers.broker import Broker
from tests.servers.kafka import KafkaServer

from bench.figures import Bench

VALUE_BYTES = 130
_AT_ONCE = 10_000
_FLUSH_SECONDS = 120.0
_LONGEST_TRANSACTION_MS = 900_000
"""A transaction may last as long as a broker allows."""
_NOTHING: Mapping[str, str | int] = {}
_STATUSES = (b"open", b"paid", b"sent", b"back")


@contextmanager
def broker(bench: Bench) -> Iterator[KafkaServer]:
    """Runs a broker for one benchmark."""
    bench.say("starting a Kafka broker")
    started = Broker.launch(bench.folder.resolve() / "kafka")
    try:
        yield KafkaServer.at(started.endpoint)
    finally:
        started.stop()


class Records:
    """Makes random keys and values, the same ones in every run. Values are JSON of 130 bytes."""

    def __init__(self) -> None:
        self._rng = random.Random(11)
        self._made = 0

    def some(self, count: int) -> list[dict[str, bytes]]:
        draw = self._rng.getrandbits
        first = self._made
        self._made += count
        return [
            {"key": b"customer-%06d" % (draw(32) % 1_000_000), "value": _value(number, draw(64))}
            for number in range(first, first + count)
        ]


def _value(number: int, by_chance: int) -> bytes:
    status = _STATUSES[by_chance & 3]
    amount = by_chance % 1_000_000
    value = b'{"id":%09d,"status":"%s","amount":%06d,"trace":"%016x","shop":"shop-%05d","note":"' % (
        *(number, status, amount, by_chance),
        by_chance >> 50,
    )
    return value + b"x" * (VALUE_BYTES - len(value) - 2) + b'"}'


class TopicFiller:
    """Puts records into a topic, into its partitions by turns."""

    def __init__(
        self, server: KafkaServer, topic: str, partitions: int = 1, settings: Mapping[str, str | int] = _NOTHING
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._records = Records()
        self._producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "log_level": 0,
                "linger.ms": 20,
                "queue.buffering.max.messages": 10 * _AT_ONCE,
                **settings,
            }
        )

    def put(self, count: int) -> None:
        """Put records; all of them are stored when this returns."""
        for number, at in enumerate(range(0, count, _AT_ONCE)):
            self._send(self._records.some(min(_AT_ONCE, count - at)), number % self._partitions)
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            raise TimeoutError(f"{self._topic}: {left:,} records were not stored")

    def _send(self, records: list[dict[str, bytes]], partition: int) -> None:
        while len(self._producer) > 9 * _AT_ONCE:
            self._producer.poll(0.01)
        sent = self._producer.produce_batch(self._topic, records, partition=partition)
        assert sent == len(records), f"{sent} of {len(records)} records were queued"


class HiddenRecords(TopicFiller):
    """Puts records in one transaction: nobody sees them until `show`, and then all of them are visible."""

    def __init__(self, server: KafkaServer, topic: str) -> None:
        name = f"{topic}-filling"
        super().__init__(
            server,
            topic,
            settings={"transactional.id": name, "transaction.timeout.ms": _LONGEST_TRANSACTION_MS},
        )
        self._producer.init_transactions(_FLUSH_SECONDS)
        self._producer.begin_transaction()

    def show(self) -> None:
        self._producer.commit_transaction(_FLUSH_SECONDS)
