"""Which subscription: its names, and where its checkpoints are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

from frazil.errors import RequestError
from frazil.log.store import ObjectStore

ROOT = "subscriptions"
MAX_NAME_BYTES = 200
"""Of a name as it stands in a key: file systems take 255."""


class Place(NamedTuple):
    subscription: str
    namespace: str
    topic: str

    @property
    def prefix(self) -> str:
        return "/".join((ROOT, *map(_part, self))) + "/"

    def key(self, number: int) -> str:
        return f"{self.prefix}{number:020d}.json"

    def __str__(self) -> str:
        return f"subscription {self.subscription!r} of topic {self.namespace}/{self.topic}"


def places_of(store: ObjectStore, namespace: str, topic: str) -> Iterator[Place]:
    """Every subscription that a topic has or had."""
    for folder in store.list_folders(ROOT):
        place = Place(unquote(folder.rstrip("/").rpartition("/")[2]), namespace, topic)
        if next(iter(store.list(place.prefix)), None) is not None:
            yield place


def _part(name: str) -> str:
    """A name as one part of a key, whatever is in it."""
    part = quote(name, safe="")
    if part.startswith("."):
        part = f"%2E{part[1:]}"
    if not 0 < len(part) <= MAX_NAME_BYTES:
        raise RequestError(
            f"{name[:80]!r} cannot be the name of a subscription or its topic: it must have 1 to {MAX_NAME_BYTES} "
            f"characters, where one that is not a letter or digit of ASCII counts as three or more."
        )
    return part
