"""Holds the buffered records of one partition, which have no gaps, and the index of their keys.

It is immutable: every change makes a new object. So a reader sees a consistent state for as long as it needs, without
a lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from frazil.hot import blocks as blocks_
from frazil.hot import key_index
from frazil.hot.blocks import Block
from frazil.hot.key_index import IndexRun


@dataclass(frozen=True, slots=True)
class PartitionContents:
    end: int = 0
    """The next record gets this offset."""
    sealed: int = 0
    """Records below this offset are in segments, and may be evicted at any time."""
    blocks: tuple[Block, ...] = ()
    runs: tuple[IndexRun, ...] = ()
    ascending_from: int = 0
    """The source's offsets ascend from this log offset on. Earlier records are from before the source was
    recreated."""
    last_source_offset: int | None = None
    """This is the source's offset of the newest record, if it is known."""
    nbytes: int = 0
    """This is the size of the blocks."""

    @property
    def start(self) -> int:
        return self.blocks[0].offset if self.blocks else self.end

    @property
    def rows(self) -> int:
        return self.end - self.start

    @property
    def index_bytes(self) -> int:
        return sum(run.nbytes for run in self.runs)

    @property
    def unsealed_bytes(self) -> int:
        total = 0
        for block in reversed(self.blocks):
            if block.end <= self.sealed:
                break
            total += block.nbytes
        return total

    @property
    def oldest_unsealed_ms(self) -> int | None:
        at = self._at(self.sealed)
        return self.blocks[at].since_ms if self.sealed < self.end and self.blocks else None

    # --- finding -------------------------------------------------------------------------------------------

    def block_at(self, offset: int) -> Block | None:
        if not self.start <= offset < self.end:
            return None
        return self.blocks[self._at(offset)]

    def _at(self, offset: int) -> int:
        return max(0, bisect_right(self.blocks, offset, key=_offset) - 1)

    def find(self, source_offset: int) -> int:
        """Returns the log offset of the first record at or after this offset of the source."""
        low = self._at(max(self.ascending_from, self.start))
        at = bisect_right(self.blocks, source_offset, low, key=_first) - 1
        if at < low:
            return max(self.ascending_from, self.start)
        return max(self.blocks[at].find(source_offset), self.ascending_from)

    @property
    def first_source_offset(self) -> int | None:
        """Returns the smallest source offset that can be searched for."""
        block = self.block_at(max(self.ascending_from, self.start))
        return block.first if block else None

    def between(self, start: int, end: int) -> Iterator[tuple[Block, int, int]]:
        """Yields the blocks that have these offsets, each with the first row and the row after the last."""
        start, end = max(start, self.start), min(end, self.end)
        at = self._at(start)
        while start < end:
            block = self.blocks[at]
            stop = min(block.end, end)
            yield block, start - block.offset, stop - block.offset
            start = stop
            at += 1

    # --- changing ------------------------------------------------------------------------------------------

    def appended(self, block: Block, run: IndexRun | None) -> PartitionContents:
        assert block.offset == self.end
        ascends = block.ascending_from == block.offset and (not self.blocks or self.blocks[-1].last < block.first)
        return replace(
            self,
            end=block.end,
            blocks=(*self.blocks, block),
            runs=key_index.merge_due((*self.runs, run), self.start) if run else (),
            ascending_from=self.ascending_from if ascends and self.blocks else block.ascending_from,
            last_source_offset=block.last,
            nbytes=self.nbytes + block.nbytes,
        )

    def prepended(self, block: Block, run: IndexRun | None) -> PartitionContents:
        """`block` is sealed and ends where these contents begin."""
        assert block.end == self.start
        first = self.first_source_offset
        ascends = self.ascending_from <= self.start and (first is None or block.last < first)
        return replace(
            self,
            blocks=(block, *self.blocks),
            runs=key_index.merge_due((run, *self.runs), block.offset) if run else (),
            ascending_from=block.ascending_from if ascends else self.ascending_from,
            last_source_offset=self.last_source_offset if self.blocks else block.last,
            nbytes=self.nbytes + block.nbytes,
        )

    def sealed_to(self, sealed: int) -> PartitionContents:
        return replace(self, sealed=min(sealed, self.end))

    def truncated(self, end: int) -> PartitionContents:
        """Returns the contents without the records at `end` and after it."""
        if end >= self.end:
            return self
        if end <= self.start:
            return PartitionContents(end, end)
        kept = [block if block.end <= end else blocks_.cut(block, end) for block in self.blocks if block.offset < end]
        return replace(
            self,
            end=end,
            sealed=min(self.sealed, end),
            blocks=tuple(kept),
            runs=tuple(key_index.cut(run, run.start, end) for run in self.runs if run.start < end),
            ascending_from=min(self.ascending_from, end),
            last_source_offset=kept[-1].last,
            nbytes=sum(block.nbytes for block in kept),
        )

    def without_first(self, count: int) -> PartitionContents:
        """Returns the contents without the oldest blocks."""
        gone, kept = self.blocks[:count], self.blocks[count:]
        start = kept[0].offset if kept else self.end
        return replace(
            self,
            blocks=kept,
            runs=tuple(run for run in self.runs if run.end > start),
            nbytes=self.nbytes - sum(block.nbytes for block in gone),
        )

    def joined(self, where: slice) -> PartitionContents:
        old = self.blocks[where]
        new = blocks_.join(old)
        return replace(
            self,
            blocks=(*self.blocks[: where.start], new, *self.blocks[where.stop :]),
            nbytes=self.nbytes + new.nbytes - sum(block.nbytes for block in old),
        )

    def evictable(self) -> Sequence[Block]:
        """Returns the blocks that may be evicted, the oldest first."""
        count = bisect_right(self.blocks, self.sealed, key=_end)
        return self.blocks[:count]


def _offset(block: Block) -> int:
    return block.offset


def _end(block: Block) -> int:
    return block.end


def _first(block: Block) -> int:
    return block.first
