"""The subscriptions of a topic: those that this process serves, and those that wait for their consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from frazil.log.store import ObjectStore
from frazil.topics.interface import SubscriptionStats
from frazil.topics.names import TopicName
from frazil.topics.storage import TopicStorage
from frazil.topics.subscriptions.checkpoints import Checkpoint, newest
from frazil.topics.subscriptions.places import places_of


async def subscriptions_of(
    storage: TopicStorage, store: ObjectStore, topic: str, here: Mapping[str, SubscriptionStats]
) -> list[dict[str, Any]]:
    """By name, with how many messages of each partition they have not acknowledged yet.

    `here` are those that this process serves, whose checkpoints are a little behind.
    """
    name = storage.name(topic)
    ends = await storage.get_write_position(name.path)
    saved = await asyncio.to_thread(_saved, store, name, len(ends))
    found = []
    for each in sorted({*here, *saved}):
        kept = saved.get(each, {})
        lag = {partition: mark.lag(ends) for partition, mark in kept.items()}
        if each in here:
            lag |= here[each].lag
        found.append(
            {
                "subscription": each,
                "type": next((mark.kind for mark in kept.values()), None),
                "served_here": each in here,
                "consumers": here[each].consumers if each in here else 0,
                "lag": sum(lag.values()),
                "partitions": [{"partition": partition, "lag": lag[partition]} for partition in sorted(lag)],
            }
        )
    return found


class _Mark:
    """What a checkpoint says of one partition."""

    def __init__(self, checkpoint: Checkpoint, partition: int) -> None:
        self.kind = checkpoint.kind
        self._partition = partition
        self._progress = checkpoint.partitions[partition]

    def lag(self, ends: Mapping[int, int]) -> int:
        return self._progress.missing_count(ends.get(self._partition, 0))


def _saved(store: ObjectStore, name: TopicName, partitions: int) -> dict[str, dict[int, _Mark]]:
    """Those with a checkpoint; of all partitions, or of one alone."""
    found: dict[str, dict[int, _Mark]] = {}
    for part in (name.name, *(f"{name.name}-part-{number}" for number in range(partitions))):
        for place in places_of(store, name.namespace, part):
            last = newest(store, place)
            if last is not None and not last.deleted:
                marks = {partition: _Mark(last, partition) for partition in last.partitions}
                found.setdefault(place.subscription, {}).update(marks)
    return found
