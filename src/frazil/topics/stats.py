"""How much a topic holds, and where."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from frazil.lake.commit.offsets import TableState, current_snapshot, summary_of
from frazil.log.segments.index import SegmentIndex
from frazil.topics.interface import PartitionStats, SubscriptionStats, TopicStats
from frazil.topics.read.cold import ColdReader
from frazil.topics.read.topic_place import TopicPlace


def write_positions(place: TopicPlace, partitions: int) -> dict[int, int]:
    return {partition: place.reader(partition).bounds().end for partition in range(partitions)}


def committed_positions(place: TopicPlace, partitions: int) -> dict[int, int]:
    table = place.table()
    offsets = TableState.of(table).offsets if table is not None else {}
    return {partition: offsets.get(partition, 0) for partition in range(partitions)}


def topic_stats(place: TopicPlace, partitions: int, subscriptions: Mapping[str, SubscriptionStats]) -> TopicStats:
    table = place.table()
    offsets = TableState.of(table).offsets if table is not None else {}
    found: dict[int, PartitionStats] = {}
    hot = 0
    for partition in range(partitions):
        cold = ColdReader(place, partition)
        committed = offsets.get(partition, 0)
        first = cold.earliest()
        found[partition] = PartitionStats(first, max(first, cold.end()), committed)
        hot += _hot_bytes(place, partition, committed)
    said = summary_of(current_snapshot(table)) if table is not None else {}
    return TopicStats(place.topic, found, hot, int(said.get("total-files-size", 0)), subscriptions)


def _hot_bytes(place: TopicPlace, partition: int, committed: int) -> int:
    """Segments that the table has in part count as a whole."""
    index = SegmentIndex(place.log.store, place.topic, partition)
    index.refresh()
    sealed_end = index.sealed_end()
    sealed = sum(index.size(first) for first, end in pairwise([*index.firsts, sealed_end]) if end > committed)
    source = place.reader(partition).tail
    view = source.view(sealed_end) if source is not None else None
    entries = view.entries if view is not None else []
    return sealed + sum(entry.nbytes for entry in entries if entry.end > max(sealed_end, committed))
