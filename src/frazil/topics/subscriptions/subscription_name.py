"""Names a subscription, and says where its checkpoints are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

from frazil.errors import RequestError
from frazil.store import ObjectStore

ROOT = "subscriptions"
PART = "-part-"
"""This separates a topic from the number of a partition that is subscribed to alone."""
MAX_NAME_BYTES = 200
"""A name in a key has at most this many bytes, because file systems take 255."""


class SubscriptionName(NamedTuple):
    subscription: str
    namespace: str
    topic: str

    @property
    def prefix(self) -> str:
        return "/".join((ROOT, *map(_part, self))) + "/"

    def key(self, number: int) -> str:
        return f"{self.prefix}{number:020d}.json"

    def __str__(self) -> str:
        return f"subscription {self.subscription!r} of topic {self.namespace}.{self.topic}"


def subscriptions_of(store: ObjectStore, namespace: str, topic: str) -> Iterator[tuple[SubscriptionName, int | None]]:
    """Yields every subscription that a topic has or had, with the partition if it is to one alone."""
    for folder in store.list_folders(ROOT):
        yield from variants_of(store, SubscriptionName(_last(folder), namespace, topic))


def variants_of(store: ObjectStore, whole: SubscriptionName) -> Iterator[tuple[SubscriptionName, int | None]]:
    """Yields the subscriptions of one name: one to the whole topic, or those to some of its partitions."""
    for each in store.list_folders(whole.prefix.rstrip("/").rpartition("/")[0]):
        name = _last(each)
        base, found, number = name.rpartition(PART)
        if name == whole.topic:
            yield whole, None
        elif found and base == whole.topic and number.isdecimal():
            yield whole._replace(topic=name), int(number)


def _last(folder: str) -> str:
    return unquote(folder.rstrip("/").rpartition("/")[2])


def _part(name: str) -> str:
    """Escapes a name, so that it is one part of a key whatever it contains."""
    part = quote(name, safe="")
    if part.startswith("."):
        part = f"%2E{part[1:]}"
    if not 0 < len(part) <= MAX_NAME_BYTES:
        raise RequestError(
            f"{name[:80]!r} cannot be the name of a subscription or its topic: it must have 1 to {MAX_NAME_BYTES} "
            f"characters, where one that is not a letter or digit of ASCII counts as three or more."
        )
    return part
