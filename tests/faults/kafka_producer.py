"""A producer that never stops, whatever happens to the broker.

It sends plain records, and transactions that commit or abort.
The records that must arrive are those that Kafka itself returns (`KafkaServer.committed`). The acknowledgements that
the producer got are kept too, so that each can be checked by the other.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.servers.kafka import KafkaServer, Record, RecordPosition

LARGEST = 40
KEYS = 20

_SECONDS = 120.0
_PATIENCE_MS = 600_000
"""The broker aborts a transaction after this time, and then the producer cannot go on. So it is long."""
_LASTING: dict[str, str | int | float | bool] = {
    "message.timeout.ms": 0,
    "reconnect.backoff.max.ms": 200,
    "linger.ms": 2,
    "log_level": 0,
}


class Producing:
    """Produces from a thread of its own between `start` and `stop`."""

    def __init__(self, kafka: KafkaServer, topic: str, partitions: int, seed: int, pause: float = 0.01) -> None:
        self.kept: dict[RecordPosition, Record] = {}
        """The records that were acknowledged, and if they were in a transaction, in one that was committed."""
        self.aborted: set[RecordPosition] = set()
        self._kafka = kafka
        self._topic = topic
        self._partitions = partitions
        self._chance = random.Random(seed)
        self._pause = pause
        self._count = 0
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="producing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._end(error)

    def _end(self, error: BaseException | None = None) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure from error

    def stop(self) -> dict[RecordPosition, Record]:
        """Stops, and returns the records that every reader of committed records must see."""
        self._end()
        truth = self._kafka.committed(self._topic)
        assert self.kept, "nothing was produced"
        assert self.aborted, "no transaction was aborted"
        assert {place: truth[place] for place in self.kept} == self.kept
        assert not self.aborted & truth.keys()
        return truth

    def _run(self) -> None:
        address: dict[str, str | int | float | bool] = {"bootstrap.servers": self._kafka.bootstrap, **_LASTING}
        try:
            plain = Producer({**address, "enable.idempotence": True})
            name = f"producing {self._topic}"
            transactional = Producer({**address, "transactional.id": name, "transaction.timeout.ms": _PATIENCE_MS})
            _insist(lambda: transactional.init_transactions(_SECONDS))
            while not self._stopping.wait(self._pause):
                records = [self._record() for _ in range(self._chance.randint(1, LARGEST))]
                if self._chance.random() < 0.5:
                    self.kept |= self._send(plain, records)
                else:
                    self._transact(transactional, records, commit=self._chance.random() < 0.6)
        except BaseException as failure:  # noqa: BLE001 - raised by who ends it
            self._failure = failure

    def _record(self) -> Record:
        chance = self._chance
        self._count += 1
        return Record(
            None if chance.random() < 0.05 else b"value %d" % self._count,
            None if chance.random() < 0.1 else b"key %d" % chance.randrange(KEYS),
            chance.randrange(self._partitions),
            [("count", b"%d" % self._count)] if chance.random() < 0.2 else [],
            1_700_000_000_000 + self._count,
        )

    def _transact(self, producer: Producer, records: list[Record], *, commit: bool) -> None:
        producer.begin_transaction()
        sent = self._send(producer, records)
        if commit:
            try:
                _insist(lambda: producer.commit_transaction(_SECONDS))
                self.kept |= sent
                return
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
        _insist(lambda: producer.abort_transaction(_SECONDS))
        self.aborted |= sent.keys()

    def _send(self, producer: Producer, records: list[Record]) -> dict[RecordPosition, Record]:
        """Sends records and returns where each is, as far as known. Records of an aborted transaction may be lost."""
        sent: dict[RecordPosition, Record] = {}
        for record in records:

            def note(error: KafkaError | None, message: Message, record: Record = record) -> None:
                partition, offset = message.partition(), message.offset()
                if error is None and partition is not None and offset is not None:
                    sent[RecordPosition(partition, offset)] = record

            producer.produce(
                self._topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=note,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        assert producer.flush(_SECONDS) == 0, "the broker did not come back"
        return sent


def _insist(call: Callable[[], None]) -> None:
    """Repeats a call as long as its error says that it may succeed, also while the broker is down."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
