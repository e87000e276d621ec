"""Knows how far a Kafka partition was read. The log alone says it: each segment has the position after its records.

Two things are not in the log. They are objects beside its segments, and each is created once: where a partition
begins that was never read, and that a person went on somewhere else than the log says (`frazil topics resume
--accept`). Such a *mark* is valid for one place at one offset of the log, so it ends with the next record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from frazil.clock import World, iso
from frazil.errors import LogCorrupted, ObjectExists
from frazil.log import layout
from frazil.log.positions import Feeders, Source
from frazil.log.segments.index import SegmentIndex
from frazil.store import ObjectStore


class Place(NamedTuple):
    """Says which offset is read next, in one life of a Kafka topic."""

    identity: str
    position: int


class Standing(NamedTuple):
    """Says where a partition of the log ends, and how far Kafka's partition is stored there."""

    log_end: int
    place: Place | None


def source_name(topic: str, partition: int) -> str:
    return f"kafka:{topic}/{partition}"


def source(topic: str, partition: int, place: Place) -> Source:
    return Source(source_name(topic, partition), *place)


def place_in(feeders: Feeders, topic: str, partition: int) -> Place | None:
    found = feeders.source(source_name(topic, partition))
    return Place(found.identity, found.next_position) if found else None


def standing_of(store: ObjectStore, topic: str, partition: int) -> Standing:
    """Read it from the store, without opening the partition."""
    index = SegmentIndex(store, topic, partition)
    index.refresh()
    newest = index.newest()
    feeders = Feeders.from_json(newest.positions) if newest else Feeders()
    return Standing(index.sealed_end(), place_in(feeders, topic, partition))


class Marks:
    """Reads and writes the marks of one partition."""

    def __init__(self, store: ObjectStore, topic: str, partition: int, world: World) -> None:
        self._store = store
        self._prefix = f"{layout.kafka_prefix(topic)}{partition:05d}/"
        self._world = world

    def follow(self, standing: Standing) -> Place | None:
        """Return the stored place, or the one where marks lead from there. None means that nobody decided."""
        there = {info.key for info in self._store.list(self._prefix)}
        place = standing.place
        seen = {place}
        while (key := self._key(standing.log_end, place)) in there:
            onward = self._read(key)
            if onward in seen:
                break
            seen.add(onward)
            place = onward
        return place

    def lead(self, standing: Standing, left: Place | None, onward: Place, partitions: int) -> Place:
        """Go on elsewhere than the log or a mark says. Returns the place that somebody else decided first, if so."""
        key = self._key(standing.log_end, left)
        body = {
            "left": left and left._asdict(),
            "goes_on": onward._asdict(),
            "partitions": partitions,
            "decided_at": iso(self._world.clock.now_ms()),
        }
        try:
            self._store.put_new(key, json.dumps(body).encode())
        except ObjectExists:
            return self._read(key)
        return onward

    def _key(self, log_end: int, left: Place | None) -> str:
        if left is None:
            return f"{self._prefix}{log_end:020d}-start"
        digest = hashlib.sha256(left.identity.encode()).hexdigest()[:16]
        return f"{self._prefix}{log_end:020d}-{left.position:020d}-{digest}"

    def _read(self, key: str) -> Place:
        return Place(**_load(self._store, key)["goes_on"])


class Beginning(NamedTuple):
    """Says in which life of its topic a partition began or went on, and how many partitions the topic had then."""

    identity: str
    partitions: int


def beginnings(store: ObjectStore, topic: str) -> Iterator[Beginning]:
    """Yield the marks of all partitions of a topic; each is read from the store when it is needed."""
    for info in store.list(layout.kafka_prefix(topic)):
        mark = _load(store, info.key)
        yield Beginning(mark["goes_on"]["identity"], mark["partitions"])


def _load(store: ObjectStore, key: str) -> dict[str, Any]:
    try:
        mark = dict(json.loads(bytes(store.get(key))))
        _ = mark["partitions"], mark["goes_on"]["identity"], mark["goes_on"]["position"]
    except (ValueError, KeyError, TypeError) as error:
        raise LogCorrupted(f"{key} in {store.url} is no mark of the Kafka door: {error}.") from error
    return mark
