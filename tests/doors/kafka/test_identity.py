"""Records are stored only when it is known which life of their topic they came from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.cluster import Bounds, Cluster, Life
from frazil.doors.kafka.gaps import gap
from frazil.doors.kafka.identity import Proof
from frazil.doors.kafka.positions import Place
from frazil.errors import KafkaError, KafkaOffsetsGone, KafkaTopicReplaced
from tests.doors.kafka.support import numbered
from tests.servers.kafka import KafkaServer


def proof_of(kafka: KafkaServer, topic: str, proven: int, read: int, partition: int = 0) -> Proof:
    cluster = Cluster(KafkaConfig(bootstrap_servers=[kafka.bootstrap], topics=[topic]), 10)
    proof = Proof(cluster, topic, partition, cluster.life(topic).identity)
    proof.begin(proven)
    proof.read = read
    return proof


def replace(kafka: KafkaServer, topic: str, records: int) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(name=topic)
    kafka.produce(topic, numbered(records))


def test_what_may_come_from_a_successor_is_not_stored(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    proof = proof_of(kafka, topic, proven=10, read=20)
    proof()
    proof.read = 25
    replace(kafka, topic, records=20)
    proof()
    kafka.produce(topic, numbered(1))
    with pytest.raises(KafkaTopicReplaced, match="from offset 20 to 25"):
        proof()
    proof.read = 20
    proof()


@pytest.mark.parametrize(
    "happens",
    [KafkaServer.delete_topic, lambda kafka, topic: replace(kafka, topic, records=100)],
    ids=["gone", "fewer"],
)
def test_what_can_only_come_from_the_topic_as_it_was_is_kept(
    kafka: KafkaServer, happens: Callable[[KafkaServer, str], None]
) -> None:
    """It was deleted, or its successor does not have that partition at all."""
    topic = kafka.create_topic(partitions=2)
    proof = proof_of(kafka, topic, proven=10, read=20, partition=1)
    happens(kafka, topic)
    proof()


LIFE = Life("cluster/id", 1)


@pytest.mark.parametrize(
    ("place", "bounds", "expected", "told"),
    [
        (Place("cluster/id", 5), Bounds(5, 9), None, ()),
        (Place("cluster/id", 9), Bounds(5, 9), None, ()),
        (Place("cluster/id", 0), Bounds(0, 0), None, ()),
        (Place("cluster/id", 4), Bounds(5, 9), KafkaOffsetsGone, ("offset 4 comes next", "Kafka has is 5")),
        (Place("cluster/id", 10), Bounds(5, 9), KafkaOffsetsGone, ("offset 10 comes next", "ends at 9", "offset 5.")),
        (Place("cluster/other", 7), Bounds(5, 9), KafkaTopicReplaced, ("cluster/other", "cluster/id", "offset 7")),
    ],
)
def test_when_a_person_must_decide(
    place: Place, bounds: Bounds, expected: type[KafkaError] | None, told: tuple[str, ...]
) -> None:
    found = gap("orders", 0, place, LIFE, bounds)
    assert (type(found) if found else None) is expected
    assert all(text in str(found) for text in told)
