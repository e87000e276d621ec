"""Builds the JSON answers about a topic: its stats, and where messages were stored."""

from __future__ import annotations

from typing import Any

from frazil.topics.interface import StoreResult, TopicStats


def topic_stats_json(stats: TopicStats) -> dict[str, Any]:
    """Returns everything but the subscriptions."""
    return {
        "topic": stats.topic,
        "message_count": stats.message_count,
        "hot_messages": stats.hot_messages,
        "cold_messages": stats.cold_messages,
        "bytes_stored": stats.bytes_stored,
        "hot_bytes": stats.hot_bytes,
        "cold_bytes": stats.cold_bytes,
        "partitions": [
            {
                "partition": partition,
                "first_offset": each.first,
                "last_offset": each.last,
                "next_offset": each.end,
                "committed_offset": each.committed,
                "messages": each.messages,
                "hot_messages": each.hot,
            }
            for partition, each in sorted(stats.partitions.items())
        ],
    }


def stored_message_json(topic: str, stored: StoreResult) -> dict[str, Any]:
    (run,) = stored.runs
    return {"topic": topic, "partition": run.partition, "offset": run.first, "duplicate": run.duplicate}


def stored_batch_json(topic: str, stored: StoreResult) -> dict[str, Any]:
    return {
        "topic": topic,
        "messages": sum(run.rows for run in stored.runs),
        "partitions": [
            {
                "partition": run.partition,
                "first_offset": run.first,
                "last_offset": run.first + run.rows - 1,
                "messages": run.rows,
                "duplicate": run.duplicate,
            }
            for run in stored.runs
        ],
    }
