"""Finds the segments that the settings keep in the log after they are in the tables.

Reads from the log are quicker than reads from a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from frazil.config.sections.topics import TopicConfig
from frazil.log import layout
from frazil.store import ObjectStore

_GIB = 1024**3
_HOUR_MS = 3_600_000


class ListedSegment(NamedTuple):
    key: str
    first: int
    size: int
    sealed_ms: int


def segments_of(store: ObjectStore, topic: str, partition: int) -> list[ListedSegment]:
    return [
        ListedSegment(info.key, first, info.size, int(info.modified.timestamp() * 1000))
        for info in store.list(layout.partition_prefix(topic, partition))
        if (first := layout.parse_segment(info.key)) is not None
    ]


def kept_from(
    settings: TopicConfig, partitions: Mapping[int, Sequence[ListedSegment]], now_ms: int
) -> dict[int, int]:
    """Returns by partition the first offset that the settings keep. Partitions without such offsets are left out."""
    hours, size = settings.log_retention_hours, settings.log_retention_gb
    if hours is None and size is None:
        return {}
    since = now_ms - hours * _HOUR_MS if hours is not None else 0
    room = size * _GIB if size is not None else float("inf")
    newest_first = sorted(
        ((each.sealed_ms, each.first, partition, each) for partition, one in partitions.items() for each in one),
        reverse=True,
    )
    found: dict[int, int] = {}
    for sealed_ms, first, partition, segment in newest_first:
        room -= segment.size
        if room < 0 or sealed_ms < since:
            break
        found[partition] = min(first, found.get(partition, first))
    return found
