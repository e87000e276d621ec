"""Counts how much a topic holds, hot and cold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from frazil.lake.commit.offsets import TableState, current_snapshot, summary_of
from frazil.log.segments.index import SegmentIndex
from frazil.topics.interface import PartitionStats, SubscriptionStats, TopicStats
from frazil.topics.read.cold_reader import ColdReader
from frazil.topics.read.topic_handle import TopicHandle


def write_positions(handle: TopicHandle, partitions: int) -> dict[int, int]:
    return {partition: handle.reader(partition).bounds().end for partition in range(partitions)}


def committed_positions(handle: TopicHandle, partitions: int) -> dict[int, int]:
    table = handle.table()
    offsets = TableState.of(table).offsets if table is not None else {}
    return {partition: offsets.get(partition, 0) for partition in range(partitions)}


def topic_stats(handle: TopicHandle, partitions: int, subscriptions: Mapping[str, SubscriptionStats]) -> TopicStats:
    table = handle.table()
    offsets = TableState.of(table).offsets if table is not None else {}
    found: dict[int, PartitionStats] = {}
    hot = 0
    for partition in range(partitions):
        cold = ColdReader(handle, partition)
        committed = offsets.get(partition, 0)
        first = cold.earliest()
        found[partition] = PartitionStats(first, max(first, cold.end()), committed)
        hot += _hot_bytes(handle, partition, committed)
    summary = summary_of(current_snapshot(table)) if table is not None else {}
    return TopicStats(handle.topic, found, hot, int(summary.get("total-files-size", 0)), subscriptions)


def _hot_bytes(handle: TopicHandle, partition: int, committed: int) -> int:
    """Returns the size of what the table does not have yet. A segment that it has in part counts as a whole."""
    index = SegmentIndex(handle.log.store, handle.topic, partition)
    index.refresh()
    sealed_end = index.sealed_end()
    sealed = sum(index.size(first) for first, end in pairwise([*index.firsts, sealed_end]) if end > committed)
    source = handle.reader(partition).tail
    view = source.view(sealed_end) if source is not None else None
    entries = view.entries if view is not None else []
    return sealed + sum(entry.nbytes for entry in entries if entry.end > max(sealed_end, committed))
