"""What a caller of the client meets when something goes wrong; no broker is needed for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException, TopicPartition

from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.client import Client
from frazil.doors.kafka.cluster import PartitionKey
from frazil.errors import ConsumerClosed, OffsetCommit, PartitionAssignment

KEY = ("orders", 0)
KAFKA = KafkaConfig(bootstrap_servers=["127.0.0.1:1"], topics=["orders"], consumer_group="g")


class Told(list[tuple[list[PartitionKey], OffsetCommit]]):
    def __call__(self, keys: list[PartitionKey], problem: OffsetCommit) -> None:
        self.append((keys, problem))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def client(told: Told) -> Iterator[Client]:
    client = Client(KAFKA, lambda _: None, told)
    yield client
    client.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.consume(0.1),
        lambda client: client.pause([KEY]),
        lambda client: client.read_from(KEY, 0),
        lambda client: client.commit({KEY: 3}),
    ],
)
def test_a_closed_consumer_is_used_no_more(client: Client, use: Callable[[Client], object]) -> None:
    client.close()
    with pytest.raises(ConsumerClosed, match="the Kafka consumer is closed"):
        use(client)


def test_offsets_that_were_not_committed_are_told_with_the_reason(client: Client, told: Told) -> None:
    failed = TopicPartition(*KEY, 3)
    client._committed(ClientError(ClientError.REBALANCE_IN_PROGRESS, "the group rebalances"), [failed])
    ((keys, problem),) = told
    assert keys == [KEY]
    assert problem.retryable
    assert str(problem) == ("Committing the group's offsets: the group rebalances (REBALANCE_IN_PROGRESS).")


def test_a_commit_that_the_client_refuses_is_told_too(
    client: Client, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def commit(self, **_: object) -> None:
            raise KafkaException(ClientError(ClientError._WAIT_COORD, "no coordinator"))

        def close(self) -> None:
            """Nothing is open."""

    with monkeypatch.context() as patched:
        patched.setattr(client, "_consumer", Refusing())
        client.commit({KEY: 3})
    assert [(keys, type(problem)) for keys, problem in told] == [([KEY], OffsetCommit)]


def test_a_partition_that_cannot_be_taken_over(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def incremental_assign(self, _: list[TopicPartition]) -> None:
            raise KafkaException(ClientError(ClientError._FENCED, "the member is fenced"))

    with monkeypatch.context() as patched:
        patched.setattr(client, "_consumer", Refusing())
        with pytest.raises(PartitionAssignment, match="Reading orders/0: the member"):
            client.read_from(KEY, 0)


def test_what_callbacks_raise_is_not_taken_for_a_closed_consumer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Raising:
        def consume(self, *_: object) -> None:
            raise RuntimeError("cannot schedule new futures after shutdown")

    with monkeypatch.context() as patched:
        patched.setattr(client, "_consumer", Raising())
        with pytest.raises(RuntimeError, match="cannot schedule"):
            client.consume(0.1)
