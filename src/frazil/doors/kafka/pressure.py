"""Backpressure pauses partitions while their records wait to be sealed, and resumes them when there is room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from frazil.config.sections.kafka import BufferConfig
from frazil.config.sections.section import MIB
from frazil.doors.kafka.feed import Feed

HIGH = 0.75
"""A partition is paused when this part of its tail is full. The rest is for messages that are on their way."""
LOW = 0.5
"""Reading goes on below this part of the limit."""


class Change(NamedTuple):
    paused: list[Feed]
    resumed: list[Feed]


class Pressure:
    def __init__(self, buffer: BufferConfig) -> None:
        self._most = buffer.max_size_mb * MIB
        self._all_full = False

    def look(self, feeds: Iterable[Feed]) -> Change:
        """Return which partitions have to be paused now, and which can be resumed."""
        open_feeds = [feed for feed in feeds if feed.writer]
        unsealed = sum(feed.unsealed_bytes for feed in open_feeds)
        self._all_full = unsealed > (self._most * LOW if self._all_full else self._most)
        change = Change([], [])
        for feed in open_feeds:
            self._update_full(feed)
            wanted = feed.full or self._all_full
            if wanted and not feed.paused:
                change.paused.append(feed)
            elif feed.paused and not wanted:
                change.resumed.append(feed)
            feed.paused = wanted
        return change

    def _update_full(self, feed: Feed) -> None:
        writer = feed.writer
        assert writer
        limit = writer.options.max_tail_bytes
        feed.full = feed.unsealed_bytes > limit * (LOW if feed.full else HIGH)
        if self._all_full and feed.unsealed_bytes:
            # With many small partitions, none is large enough to be sealed, and its time may be far away.
            writer.hurry()
