"""Creation and deletion of topics by people.

A creation says how many partitions the topic has, and a growth that it has more since; a deletion says where each of
them ended. Each is an object of its own, created once and never changed, and numbered by generation: when several
processes create or delete a topic at the same moment, one is first and the others find its object. Topics that are
created by the first append have no creation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from frazil.errors import LogCorrupted, ObjectExists, ObjectNotFound
from frazil.log import layout
from frazil.store import ObjectStore

T = TypeVar("T")


Dispatch = Literal["reliable", "non_reliable"]
"""Reliable means that subscribers acknowledge messages, and get them again otherwise."""


@dataclass(frozen=True)
class Creation:
    generation: int
    partitions: int
    dispatch: Dispatch = "reliable"


@dataclass(frozen=True)
class Deletion:
    generation: int
    ends: Mapping[int, int]
    """The ends of the partitions. A topic of the same name goes on from there."""
    drop_table: bool


def creation(store: ObjectStore, topic: str) -> Creation | None:
    """Return the current creation; None when the topic was never created, or was deleted since."""
    newest, gone = _newest(store, layout.creation_prefix(topic)), _newest(store, layout.deletion_prefix(topic))
    if newest <= gone:
        return None

    def parse(data: dict[str, Any]) -> Creation:
        dispatch: Dispatch = "non_reliable" if data["dispatch"] == "non_reliable" else "reliable"
        grown = _newest(store, layout.growth_prefix(topic, newest))
        return Creation(newest, max(int(data["partitions"]), grown), dispatch)

    return _read(store, layout.creation_key(topic, newest), parse)


def deletion(store: ObjectStore, topic: str) -> Deletion | None:
    """Return the newest deletion, whether the topic was created again or not."""
    newest = _newest(store, layout.deletion_prefix(topic))
    if not newest:
        return None

    def parse(data: dict[str, Any]) -> Deletion:
        ends = {int(partition): int(end) for partition, end in data["ends"].items()}
        return Deletion(newest, ends, bool(data["drop_table"]))

    return _read(store, layout.deletion_key(topic, newest), parse)


def create(store: ObjectStore, topic: str, partitions: int, now_ms: int, dispatch: Dispatch = "reliable") -> Creation:
    """Create the topic. If somebody did already, return theirs."""
    if found := creation(store, topic):
        return found
    made = Creation(_newest(store, layout.deletion_prefix(topic)) + 1, partitions, dispatch)
    body = json.dumps({"partitions": partitions, "dispatch": dispatch, "created_ms": now_ms}).encode()
    try:
        store.put_new(layout.creation_key(topic, made.generation), body)
    except ObjectExists:
        return creation(store, topic) or made
    return made


def grow(store: ObjectStore, topic: str, made: Creation, partitions: int, now_ms: int) -> Creation:
    """Give the topic this many partitions if it has fewer. It never gets fewer again."""
    body = json.dumps({"grown_ms": now_ms}).encode()
    with suppress(ObjectExists):
        store.put_new(layout.growth_key(topic, made.generation, partitions), body)
    return creation(store, topic) or made


def delete(store: ObjectStore, topic: str, made: Deletion, now_ms: int) -> bool:
    """Delete the topic. Return False when that generation of it was deleted already."""
    ends = {str(partition): end for partition, end in made.ends.items()}
    body = json.dumps({"ends": ends, "drop_table": made.drop_table, "deleted_ms": now_ms}).encode()
    try:
        store.put_new(layout.deletion_key(topic, made.generation), body)
    except ObjectExists:
        return False
    return True


def hidden(store: ObjectStore) -> set[str]:
    """Return the topics that were deleted and not created again."""
    deleted = {folder.rstrip("/").rpartition("/")[2] for folder in store.list_folders(layout.DELETED)}
    # Only the numbers are compared: an object that cannot be read must not hide the other topics.
    return {topic for topic in deleted if not _is_created(store, topic)}


def _is_created(store: ObjectStore, topic: str) -> bool:
    return _newest(store, layout.creation_prefix(topic)) > _newest(store, layout.deletion_prefix(topic))


def _newest(store: ObjectStore, prefix: str) -> int:
    """Return the number of the newest object, 0 if there is none."""
    names = (info.key.rpartition("/")[2].removesuffix(".json") for info in store.list(prefix))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _read(store: ObjectStore, key: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
    try:
        return parse(json.loads(bytes(store.get(key))))
    except ObjectNotFound:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogCorrupted(f"{key} in {store.url} does not say what became of its topic: {error}.") from error
