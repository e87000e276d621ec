"""Finds out whether Kafka still has the records that come next. If not, reading on would leave out some silently."""

from __future__ import annotations

from frazil.doors.kafka.cluster import Bounds, Life
from frazil.doors.kafka.positions import Place
from frazil.errors import KafkaError, KafkaOffsetsGone, KafkaTopicReplaced


def never_read(topic: str, partition: int, bounds: Bounds) -> KafkaOffsetsGone:
    """Make the error for a new partition when `auto.offset.reset: error` lets a person decide where to begin."""
    return KafkaOffsetsGone(
        f"{topic}/{partition} was never read, and `auto.offset.reset` is `error`. `frazil topics resume {topic} "
        f"--accept` begins at the earliest that there is, offset {bounds.low}."
    )


def replaced(topic: str, partition: int, before: list[str], life: Life) -> KafkaTopicReplaced:
    """Make the error for a partition that was never read, while others were read when the topic had other ids."""
    return KafkaTopicReplaced(
        f"{topic}/{partition}: other partitions of the Kafka topic were read when its id was {', '.join(before)}, "
        f"but the topic of that name has the id {life.identity} now: it was deleted and made anew, or these are "
        f"other brokers. `frazil topics resume {topic} --accept` goes on with all of it."
    )


def gap(topic: str, partition: int, place: Place, life: Life, bounds: Bounds) -> KafkaError | None:
    """Return why a person must decide before this partition is read on, or None."""
    where = f"{topic}/{partition}"
    decide = f"`frazil topics resume {topic} --accept` goes on at the earliest that there is, offset {bounds.low}."
    if place.identity != life.identity:
        return KafkaTopicReplaced(
            f"{where}: the log has records of the Kafka topic with the id {place.identity} up to offset "
            f"{place.position}, but the topic of that name has the id {life.identity} now: it was deleted and made "
            f"anew, or these are other brokers. {decide}"
        )
    if place.position < bounds.low:
        return KafkaOffsetsGone(
            f"{where}: offset {place.position} comes next, but the earliest that Kafka has is {bounds.low}: "
            f"{bounds.low - place.position:,} offsets were deleted before they were read. {decide}"
        )
    if place.position > bounds.high:
        return KafkaOffsetsGone(
            f"{where}: offset {place.position} comes next, but Kafka's partition ends at {bounds.high}: brokers have "
            f"lost records that were read before. {decide} What is read again then is stored again."
        )
    return None
