"""Finds out how far durable subscriptions have read a topic."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.log.topics.generations import creation
from frazil.maintain.retention.read_progress import ReadProgress
from frazil.store import ObjectStore
from frazil.topics.names import TopicName
from frazil.topics.subscriptions.checkpoints import saved_subscriptions


def subscription_progress(store: ObjectStore, name: TopicName, ends: Mapping[int, int]) -> ReadProgress:
    """Returns how far all subscriptions have acknowledged. `ends` are the ends of the partitions in the table.

    It reads their checkpoints, so more may have been acknowledged since.
    """
    below, behind = dict(ends), []
    created = creation(store, name.topic)
    if created is None:
        return ReadProgress(below, ())
    for place, partition, checkpoint in saved_subscriptions(store, name.namespace, name.name, created.generation):
        # A partition that was added after the checkpoint is read from its start.
        passed = {
            each: checkpoint.partitions[each].mark if each in checkpoint.partitions else 0
            for each in ends
            if partition in (None, each)
        }
        lags = [
            f"at {mark} of partition {each}, which goes to {ends[each]}"
            for each, mark in sorted(passed.items())
            if mark < ends[each]
        ]
        if lags:
            behind.append(f"{place} ({'; '.join(lags)})")
        below |= {each: min(below[each], mark) for each, mark in passed.items()}
    return ReadProgress(below, tuple(behind))
