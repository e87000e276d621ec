"""Lists the subscriptions of a topic: those that this process serves, and those that only have checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from frazil.store import ObjectStore
from frazil.topics.interface import SubscriptionStats
from frazil.topics.names import TopicName
from frazil.topics.storage import TopicStorage
from frazil.topics.subscriptions.checkpoints import saved_subscriptions
from frazil.topics.subscriptions.progress import Progress


async def subscriptions_of(
    storage: TopicStorage, store: ObjectStore, topic: str, here: Mapping[str, SubscriptionStats]
) -> list[dict[str, Any]]:
    """Returns the subscriptions by name, with the number of unacknowledged messages of each partition.

    `here` has those that this process serves. Their checkpoints are a little behind.
    """
    name = storage.name(topic)
    ends = await storage.get_write_position(name.path)
    saved = await asyncio.to_thread(_saved_subscriptions, store, name, await storage.generation(topic))
    found = []
    for each in sorted({*here, *saved}):
        kept = saved.get(each)
        lag = kept.lag(ends) if kept else {}
        if each in here:
            lag |= here[each].lag
        found.append(
            {
                "subscription": each,
                "type": kept.kind if kept else None,
                "served_here": each in here,
                "consumers": here[each].consumers if each in here else 0,
                "lag": sum(lag.values()),
                "partitions": [{"partition": partition, "lag": lag[partition]} for partition in sorted(lag)],
            }
        )
    return found


class _SavedSubscription:
    """Has what checkpoints say about a subscription to a topic, or about those to each of its partitions."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.partitions: dict[int, Progress] = {}

    def lag(self, ends: Mapping[int, int]) -> dict[int, int]:
        return {each: progress.missing_count(ends.get(each, 0)) for each, progress in self.partitions.items()}


def _saved_subscriptions(store: ObjectStore, name: TopicName, generation: int) -> dict[str, _SavedSubscription]:
    found: dict[str, _SavedSubscription] = {}
    for full_name, _, last in saved_subscriptions(store, name.namespace, name.name, generation):
        found.setdefault(full_name.subscription, _SavedSubscription(last.kind)).partitions.update(last.partitions)
    return found
