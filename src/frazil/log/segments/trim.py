"""Trims the log: deletes segments that no table needs any more.

First a mark `low/{offset}` is created; from then on readers and writers take everything below it for gone. Only
when the mark is older than the grace time are the segments deleted, so that a query that began before the mark
can end. The newest segment always stays: it carries the next offset and the positions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from frazil.errors import ObjectExists
from frazil.log import layout
from frazil.log.segments.index import SegmentIndex
from frazil.store import ObjectStore


@dataclass(frozen=True)
class Trimmed:
    """The result of one call, or of a dry run."""

    low: int
    deleted: list[str]
    waiting: list[str]
    """Segments below the mark that are still within the grace time."""


def trim(
    store: ObjectStore,
    topic: str,
    partition: int,
    *,
    needed_from: int,
    grace_seconds: float,
    now_ms: int,
    dry_run: bool = False,
) -> Trimmed:
    """Delete whole segments below `needed_from`, the lowest offset that a table of the topic still needs."""
    index = SegmentIndex(store, topic, partition)
    index.refresh()
    low = max(index.low, _first_kept(index, needed_from))
    if low > index.low and not dry_run:
        _mark(store, topic, partition, low, now_ms)
    ripe = _ripe_mark(store, topic, partition, now_ms - int(grace_seconds * 1000))
    below = [
        (first, info.key)
        for info in store.list(layout.partition_prefix(topic, partition))
        if (first := layout.parse_segment(info.key)) is not None and first < low
    ]
    deleted = [key for first, key in below if first < ripe]
    if not dry_run:
        store.delete(deleted)
        _forget_marks(store, topic, partition, ripe)
    return Trimmed(low, deleted, [key for first, key in below if first >= ripe])


def clear(store: ObjectStore, topic: str, partition: int, end: int, now_ms: int) -> None:
    """Delete all segments below `end` at once, the newest one too, because the topic was deleted.

    The mark stays, and a topic of the same name goes on from there.
    """
    _mark(store, topic, partition, end, now_ms)
    prefix = layout.partition_prefix(topic, partition)
    firsts = {info.key: layout.parse_segment(info.key) for info in store.list(prefix)}
    store.delete(key for key, first in firsts.items() if first is not None and first < end)
    _forget_marks(store, topic, partition, end)


def _first_kept(index: SegmentIndex, needed_from: int) -> int:
    """Return the first offset of the segments that stay. The newest one always stays."""
    return max((first for first in index.firsts if first <= needed_from), default=0)


def _mark(store: ObjectStore, topic: str, partition: int, offset: int, now_ms: int) -> None:
    try:
        store.put_new(layout.low_key(topic, partition, offset), json.dumps({"marked_ms": now_ms}).encode())
    except ObjectExists:
        return


def _ripe_mark(store: ObjectStore, topic: str, partition: int, before_ms: int) -> int:
    """Return the highest mark that is older than the grace time."""
    ripe = 0
    for info in store.list(layout.low_prefix(topic, partition)):
        if json.loads(bytes(store.get(info.key)))["marked_ms"] <= before_ms:
            ripe = int(info.key.rpartition("/")[2])
    return ripe


def _forget_marks(store: ObjectStore, topic: str, partition: int, ripe: int) -> None:
    """Delete the marks below a ripe one, which have no meaning any more. The highest always stays."""
    store.delete(
        info.key
        for info in store.list(layout.low_prefix(topic, partition))
        if int(info.key.rpartition("/")[2]) < ripe
    )
