"""Writes checkpoints of a subscription to the object store, and decides who may write them.

Each checkpoint is an object with the next number, and is created once:
`subscriptions/{subscription}/{namespace}/{topic}/{number}.json`. The highest number counts. A process takes a
subscription over by writing the next number with an owner id of its own; the former owner finds the number taken and
stops. A number that was deleted long ago can be created again by a process that was asleep. So after every put we
check whether there is a higher number.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from frazil.clock import World, iso
from frazil.errors import LogCorrupted, ObjectExists, ObjectNotFound, SubscriptionFenced
from frazil.store import ObjectStore
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription_name import SubscriptionName, subscriptions_of

KEPT = 3
"""So many older checkpoints are kept, for people."""


@dataclass(frozen=True)
class Checkpoint:
    number: int
    owner: str
    """This id says who wrote it. It is new whenever a process takes the subscription."""
    process: str
    """This names the owner for people."""
    generation: str
    """It is new when a subscription is created, so that acknowledgements of a deleted one of the same name are
    ignored."""
    topic_generation: int
    """It is new when the topic is created, so that subscriptions of a deleted topic of the same name are gone."""
    kind: str
    """This is the type of the subscription."""
    partitions: Mapping[int, Progress]
    deleted: bool = False

    def lasts(self, topic_generation: int) -> bool:
        """Returns whether the subscription exists for this generation of the topic."""
        return not self.deleted and self.topic_generation == topic_generation

    def encode(self, now_ms: int) -> bytes:
        content = {
            "version": 1,
            "owner": self.owner,
            "process": self.process,
            "generation": self.generation,
            "topic_generation": self.topic_generation,
            "type": self.kind,
            "partitions": {str(partition): each.to_json() for partition, each in sorted(self.partitions.items())},
            "deleted": self.deleted,
            "written_at": iso(now_ms),
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, number: int, data: Any) -> Checkpoint:
        return cls(
            number,
            str(data["owner"]),
            str(data["process"]),
            str(data["generation"]),
            int(data["topic_generation"]),
            str(data["type"]),
            {int(partition): Progress.from_json(each) for partition, each in data["partitions"].items()},
            bool(data["deleted"]),
        )


def newest(store: ObjectStore, full_name: SubscriptionName) -> Checkpoint | None:
    """Returns the checkpoint that counts. It may say that the subscription was deleted."""
    while numbers := _numbers(store, full_name):
        try:
            return _read(store, full_name, numbers[-1])
        except ObjectNotFound:
            # A newer checkpoint was written and this one deleted since the listing.
            continue
    return None


class SavedSubscription(NamedTuple):
    full_name: SubscriptionName
    partition: int | None
    """It is set for a subscription to one partition alone."""
    checkpoint: Checkpoint


def saved_subscriptions(
    store: ObjectStore, namespace: str, topic: str, topic_generation: int
) -> Iterator[SavedSubscription]:
    """Yields the subscriptions that a topic has. Their owners may have acknowledged more since, but never less.

    Messages at or after their marks must stay readable.
    """
    for full_name, partition in subscriptions_of(store, namespace, topic):
        last = newest(store, full_name)
        if last is not None and last.lasts(topic_generation):
            yield SavedSubscription(full_name, partition, last)


class Ownership:
    """Is the right to write a subscription's checkpoints, until another process takes it.

    Its methods block, and may be called from any thread.
    """

    def __init__(self, store: ObjectStore, full_name: SubscriptionName, world: World, process: str) -> None:
        self.full_name = full_name
        self.owner = world.new_id()
        self._store = store
        self._world = world
        self._process = process
        self._last_written: Checkpoint | None = None
        self._lock = threading.Lock()

    @property
    def last_written(self) -> Checkpoint:
        """Returns the checkpoint that was written last."""
        assert self._last_written is not None, "take() comes first"
        return self._last_written

    def take(
        self, former: Checkpoint | None, kind: str, birth: Mapping[int, Progress], topic_generation: int
    ) -> bool:
        """Takes over from `former`, the newest checkpoint. Creates the subscription if there is none, or it does not
        last.

        Returns False when another checkpoint was written meanwhile; the caller must look again.
        """
        if former is None or not former.lasts(topic_generation):
            generation, partitions = self._world.new_id(), birth
        else:
            generation, kind, partitions = former.generation, former.kind, former.partitions
        number = former.number + 1 if former else 1
        mine = Checkpoint(number, self.owner, self._process, generation, topic_generation, kind, partitions)
        try:
            self._store.put_new(self.full_name.key(number), mine.encode(self._world.clock.now_ms()))
        except ObjectExists:
            if self._owner_of(number) != self.owner:
                return False
        if _numbers(self._store, self.full_name)[-1] > number:
            return False
        self._last_written = mine
        return True

    def put(self, partitions: Mapping[int, Progress]) -> None:
        """Writes a checkpoint. Raises `SubscriptionFenced` when this process is not the owner any more.

        After any other error the outcome is unknown, and the next put finds out.
        """
        with self._lock:
            self._put(partitions, deleted=False)

    def delete(self) -> None:
        """Marks the subscription as deleted. Its last checkpoint stays, so that nobody revives it unaware."""
        with self._lock:
            self._put({}, deleted=True)

    def _put(self, partitions: Mapping[int, Progress], *, deleted: bool) -> None:
        if self.last_written.deleted:
            raise self._fenced()
        number, now_ms = self.last_written.number, self._world.clock.now_ms()
        while True:
            number += 1
            last_written = self.last_written
            mine = replace(last_written, number=number, partitions=partitions, deleted=deleted)
            try:
                self._store.put_new(self.full_name.key(number), mine.encode(now_ms))
                break
            except ObjectExists:
                if self._owner_of(number) != self.owner:
                    raise self._fenced() from None
                # This is an earlier put of ours whose outcome was unknown. It may have less in it.
        numbers = _numbers(self._store, self.full_name)
        if numbers[-1] > number:
            raise self._fenced()
        self._last_written = mine
        self._store.delete(self.full_name.key(each) for each in numbers if each < number - KEPT)

    def _owner_of(self, number: int) -> str | None:
        """Returns None when the checkpoint is gone, which only happens to old ones."""
        try:
            return _read(self._store, self.full_name, number).owner
        except ObjectNotFound:
            return None

    def _fenced(self) -> SubscriptionFenced:
        other = newest(self._store, self.full_name)
        if other is not None and other.deleted:
            return SubscriptionFenced(
                f"The {self.full_name} was deleted by {other.process}. Subscribe anew to create it."
            )
        who = other.process if other else "another process"
        return SubscriptionFenced(
            f"The {self.full_name} was taken over by {who}; this process has stopped to deliver for it. Messages "
            f"that were acknowledged here since the last checkpoint may be delivered once more. Consumers must "
            f"connect to the new owner; to take it back, open it here again."
        )


def _numbers(store: ObjectStore, full_name: SubscriptionName) -> list[int]:
    names = (info.key.rpartition("/")[2].removesuffix(".json") for info in store.list(full_name.prefix))
    return sorted(int(name) for name in names if name.isdecimal())


def _read(store: ObjectStore, full_name: SubscriptionName, number: int) -> Checkpoint:
    key = full_name.key(number)
    try:
        return Checkpoint.decode(number, json.loads(bytes(store.get(key))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogCorrupted(
            f"{key} in {store.url} is not a checkpoint of the {full_name}: {error!r}. Delete it to go on from the "
            f"one before it; what was acknowledged since is delivered again."
        ) from error
