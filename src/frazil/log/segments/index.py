"""The index of a partition's segments as the store lists them, and the mark below which they are trimmed.

Segments never change, so their footers are cached.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from frazil.errors import SegmentMissing, SegmentsGone
from frazil.log import layout
from frazil.log.segments.segment import Segment, read_footer
from frazil.store import ObjectStore


class SegmentIndex:
    """The segments of one partition. Thread-safe."""

    def __init__(self, store: ObjectStore, topic: str, partition: int) -> None:
        self._store = store
        self._topic = topic
        self._partition = partition
        self._firsts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._footers: dict[int, Segment] = {}
        self._newest: Segment | None = None
        self._low = 0
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """List new segments and marks. Marks sort behind segments, so one listing has both."""
        prefix = layout.partition_prefix(self._topic, self._partition)
        with self._lock:
            after = layout.segment_key(self._topic, self._partition, self._firsts[-1]) if self._firsts else None
            for info in self._store.list(prefix, after):
                if (first := layout.parse_segment(info.key)) is not None:
                    self._firsts.append(first)
                    self._sizes[first] = info.size
                elif info.key.startswith(f"{prefix}low/"):
                    self._low = max(self._low, int(info.key.rpartition("/")[2]))
            self._forget_trimmed()

    def _forget_trimmed(self) -> None:
        while self._firsts and self._firsts[0] < self._low:
            first = self._firsts.pop(0)
            self._sizes.pop(first, None)
            self._footers.pop(first, None)

    @property
    def low(self) -> int:
        return self._low

    @property
    def firsts(self) -> list[int]:
        """The first offsets of all segments that are left, in order."""
        with self._lock:
            return list(self._firsts)

    def size(self, first: int) -> int:
        return self._sizes.get(first, 0)

    def footer(self, first: int) -> Segment:
        """Return the footer of a segment without its positions: those of many segments would fill the memory."""
        with self._lock:
            known = self._footers.get(first)
        if known is None:
            known = replace(self._read(first), positions={})
            with self._lock:
                self._footers[first] = known
        return known

    def newest(self) -> Segment | None:
        """Return the footer of the newest segment with its positions."""
        firsts = self.firsts
        if not firsts:
            return None
        newest = self._newest
        if newest is None or newest.first != firsts[-1]:
            newest = self._newest = self._read(firsts[-1])
        return newest

    def _read(self, first: int) -> Segment:
        return read_footer(self._store, layout.segment_key(self._topic, self._partition, first))

    @property
    def start(self) -> int:
        """The first offset that can be read."""
        firsts = self.firsts
        return firsts[0] if firsts else self._low

    def sealed_end(self) -> int:
        newest = self.newest()
        return newest.end if newest else self._low

    def run(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the segments that hold `[start, end)`, a range below the sealed end. Raises at the first gap."""
        firsts = self.firsts
        at = bisect_right(firsts, start) - 1
        if at < 0:
            raise self.gone(start)
        while start < end:
            if at == len(firsts) or (segment := self.footer(firsts[at])).end <= start or segment.first > start:
                raise SegmentMissing(
                    f"{self._topic}/{self._partition}: no segment in {self._store.url} holds offset {start}, though "
                    f"later ones exist."
                )
            yield segment
            start = segment.end
            at += 1

    def gone(self, start: int) -> SegmentsGone:
        where = f"{self._topic}/{self._partition}"
        if start >= self.start:
            return SegmentsGone(f"{where}: the log is empty: no segment holds offset {start}.")
        return SegmentsGone(
            f"{where}: offset {start} was trimmed from the log; the first that is left is {self.start}. Older "
            f"records are in the topic's table."
        )
