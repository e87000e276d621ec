"""Backpressure: partitions are paused while what they brought waits to be sealed, and read on when there is room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from frazil.config.sections.kafka import BufferConfig
from frazil.config.sections.section import MIB
from frazil.doors.kafka.feed import Feed

HIGH = 0.75
"""Part of a partition's tail at which it is paused; the rest is for what is on its way already."""
LOW = 0.5
"""Part of the limit below which reading goes on."""


class Change(NamedTuple):
    paused: list[Feed]
    resumed: list[Feed]


class Pressure:
    def __init__(self, buffer: BufferConfig) -> None:
        self._most = buffer.max_size_mb * MIB
        self._all_full = False

    def look(self, feeds: Iterable[Feed]) -> Change:
        """What is to be paused and what is to be read on, as of now."""
        open_feeds = [feed for feed in feeds if feed.writer]
        unsealed = sum(feed.unsealed_bytes for feed in open_feeds)
        self._all_full = unsealed > (self._most * LOW if self._all_full else self._most)
        change = Change([], [])
        for feed in open_feeds:
            self._judge(feed)
            wanted = feed.full or self._all_full
            if wanted and not feed.paused:
                change.paused.append(feed)
            elif feed.paused and not wanted:
                change.resumed.append(feed)
            feed.paused = wanted
        return change

    def _judge(self, feed: Feed) -> None:
        writer = feed.writer
        assert writer
        limit = writer.options.max_tail_bytes
        feed.full = feed.unsealed_bytes > limit * (LOW if feed.full else HIGH)
        if self._all_full and feed.unsealed_bytes:
            # Many partitions with little each: none is due by its own size, and its time may be far.
            writer.hurry()
