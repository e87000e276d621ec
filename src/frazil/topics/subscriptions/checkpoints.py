"""Checkpoints of a subscription in the object store, and who may write them.

Each is an object of the next number, created once: `subscriptions/{subscription}/{namespace}/{topic}/{number}.json`.
The highest counts. A process takes a subscription over by writing the next one under an owner id of its own; the
former owner finds the number taken and stops. A number that was deleted long ago can be created again by somebody
who slept, so every put is followed by a look whether a higher one is there.
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
"""Older checkpoints that stay, for people."""


@dataclass(frozen=True)
class Checkpoint:
    number: int
    owner: str
    """Who wrote it: an id that is new whenever a process takes the subscription."""
    process: str
    """The same for people."""
    generation: str
    """New when a subscription is created; what is known of one of the same name that was deleted says nothing."""
    topic_generation: int
    """New when the topic is created; subscriptions of one of the same name that was deleted are gone with it."""
    kind: str
    """The type of the subscription."""
    partitions: Mapping[int, Progress]
    deleted: bool = False

    def lasts(self, topic_generation: int) -> bool:
        """Whether there is such a subscription of the topic as it is now."""
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
    """The one that counts, perhaps one that says that the subscription was deleted."""
    while numbers := _numbers(store, full_name):
        try:
            return _read(store, full_name, numbers[-1])
        except ObjectNotFound:
            # A newer one came, and this one went, since it was listed.
            continue
    return None


class SavedSubscription(NamedTuple):
    full_name: SubscriptionName
    partition: int | None
    """Set where it is a subscription to one partition alone."""
    checkpoint: Checkpoint


def saved_subscriptions(
    store: ObjectStore, namespace: str, topic: str, topic_generation: int
) -> Iterator[SavedSubscription]:
    """The subscriptions that a topic has. Others may have acknowledged more since, never less.

    What is at or beyond their marks must stay where it can be read.
    """
    for full_name, partition in subscriptions_of(store, namespace, topic):
        last = newest(store, full_name)
        if last is not None and last.lasts(topic_generation):
            yield SavedSubscription(full_name, partition, last)


class Ownership:
    """The right to write a subscription's checkpoints, until somebody else takes it.

    Calls block, and may come from any thread.
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
        """The checkpoint that was written last."""
        assert self._last_written is not None, "take() comes first"
        return self._last_written

    def take(
        self, former: Checkpoint | None, kind: str, birth: Mapping[int, Progress], topic_generation: int
    ) -> bool:
        """Go on from `former`, the newest; without one, or after one that does not last, create the subscription.

        False when another checkpoint came in between: look again.
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
        """Write a checkpoint; `SubscriptionFenced` when this process is not the owner any more.

        After any other error the outcome is unknown, and the next put finds it out.
        """
        with self._lock:
            self._put(partitions, deleted=False)

    def delete(self) -> None:
        """Say that the subscription is no more. Its last checkpoint stays, so that nobody revives it unaware."""
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
                # A put of ours whose outcome was unknown: it is there, perhaps with less in it.
        numbers = _numbers(self._store, self.full_name)
        if numbers[-1] > number:
            raise self._fenced()
        self._last_written = mine
        self._store.delete(self.full_name.key(each) for each in numbers if each < number - KEPT)

    def _owner_of(self, number: int) -> str | None:
        """None when it is gone, as only old ones are."""
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
