"""Durable subscriptions, and the messages that a table keeps for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from frazil.log.store import ObjectStore
from frazil.maintain.holds import Hold
from frazil.topics.names import TopicName
from frazil.topics.subscriptions.checkpoints import newest
from frazil.topics.subscriptions.places import ROOT, Place

_PART = "-part-"


def subscribers_hold(store: ObjectStore, name: TopicName, ends: Mapping[int, int]) -> Hold:
    """What subscriptions have not acknowledged, of partitions that end so in the table.

    Checkpoints are read: somebody may have acknowledged more since.
    """
    below, behind = dict(ends), []
    for place, partition in places(store, name):
        checkpoint = newest(store, place)
        if checkpoint is None or checkpoint.deleted:
            continue
        # A partition that came after the checkpoint is read from its start.
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
    return Hold(below, tuple(behind))


def places(store: ObjectStore, name: TopicName) -> Iterator[tuple[Place, int | None]]:
    """Every subscription that a topic has or had, with its partition if it is to one alone."""
    for folder in store.list_folders(ROOT):
        subscription = _last(folder)
        whole = Place(subscription, name.namespace, name.name)
        for each in store.list_folders(whole.prefix.rstrip("/").rpartition("/")[0]):
            topic = _last(each)
            base, found, number = topic.rpartition(_PART)
            if topic == name.name:
                yield whole, None
            elif found and base == name.name and number.isdecimal():
                yield whole._replace(topic=topic), int(number)


def _last(folder: str) -> str:
    return unquote(folder.rstrip("/").rpartition("/")[2])
