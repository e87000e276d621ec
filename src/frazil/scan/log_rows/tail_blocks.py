"""Keeps the rows of tails decoded, so that each record is decoded once and not by every query."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from frazil.log.epochs import Epochs
from frazil.log.wal.entries import Entry
from frazil.scan.interface import UNIT_ROWS
from frazil.scan.log_extents import LogExtent
from frazil.scan.log_rows.decoding import Block, LogDecoder, join_rows
from frazil.scan.offset_ranges import OffsetRange


@dataclass(frozen=True)
class TailBlock:
    """Has the rows of the records `[first, end)` of one partition."""

    first: int
    end: int
    epoch: str
    chain: int
    """The running checksum of the log up to `end`. Other records with the same offsets have another."""
    block: Block


class Missing(NamedTuple):
    """Names records that are not decoded: of segments below the sealed end, of entries from there on."""

    sealed: list[OffsetRange]
    unsealed: list[OffsetRange]


class TailBlocks:
    """Has decoded blocks of all partitions of one topic. Thread-safe."""

    def __init__(self, limit: int) -> None:
        """At most `limit` bytes are kept."""
        self._limit = limit
        self._serial = -1
        self._blocks: dict[int, list[TailBlock]] = {}
        self._decoded_to: dict[int, int] = {}
        """By partition, where the newest entry ends that was decoded, also if its block was not kept."""
        self._lock = threading.Lock()
        self.nbytes = 0

    def shrink(self, limit: int) -> None:
        """Forgets the oldest blocks until the rest has at most `limit` bytes, unless a thread uses them now."""
        if self._lock.acquire(blocking=False):
            try:
                self._shrink(limit)
            finally:
                self._lock.release()

    def read(
        self, decoder: LogDecoder, partition: int, extent: LogExtent, wanted: OffsetRange
    ) -> tuple[list[TailBlock], list[OffsetRange]]:
        """Returns blocks that have the records of this range, and the ranges below the sealed end that none has.

        Entries that are new are decoded.
        """
        with self._lock:
            return self._read(decoder, partition, extent, wanted, wanted.start)

    def decode_new(self, decoder: LogDecoder, partition: int, extent: LogExtent, wanted: OffsetRange) -> None:
        """Decodes the entries behind the newest that was decoded. What there was no room for is not decoded again."""
        with self._lock:
            known = self._decoded_to.get(partition, 0) if decoder.serial == self._serial else 0
            self._read(decoder, partition, extent, wanted, max(known, wanted.start))

    def _read(
        self, decoder: LogDecoder, partition: int, extent: LogExtent, wanted: OffsetRange, since: int
    ) -> tuple[list[TailBlock], list[OffsetRange]]:
        """Decodes new entries from the offset `since` on."""
        entries, epochs = extent.tail if extent.tail is not None else extent.wal, extent.tail_epochs
        if decoder.serial > self._serial:
            self._serial, self._blocks, self._decoded_to, self.nbytes = decoder.serial, {}, {}, 0
        kept = self._blocks.get(partition, []) if decoder.serial == self._serial else []
        valid = [each for each in kept if _is_valid(each, entries, epochs, extent)]
        usable = [each for each in valid if each.first < wanted.end and each.end > wanted.start]
        looked_at = OffsetRange(max(wanted.start, min(since, wanted.end)), wanted.end)
        missing = _missing(usable, looked_at, extent.sealed_end)
        new = [block for each in missing.unsealed for block in _decoded(decoder, partition, entries, each, epochs)]
        if decoder.serial == self._serial:
            self._decoded_to[partition] = max(wanted.end, self._decoded_to.get(partition, 0))
            self._keep(decoder, partition, sorted([*valid, *new], key=lambda each: each.first), wanted.start)
        return sorted([*usable, *new], key=lambda each: each.first), missing.sealed

    def _keep(self, decoder: LogDecoder, partition: int, blocks: list[TailBlock], start: int) -> None:
        """Keeps what is still needed, the newest if that is too much. Small neighbours become one block."""
        merged: list[TailBlock] = []
        for each in blocks:
            if each.end <= start:
                continue
            merged.append(each)
            while len(merged) > 1 and _are_worth_joining(merged[-2], merged[-1]):
                merged[-2:] = [_joined(merged[-2], merged[-1], decoder)]
        self._blocks[partition] = merged
        self._shrink(self._limit)

    def _shrink(self, limit: int) -> None:
        size = sum(each.block.nbytes for blocks in self._blocks.values() for each in blocks)
        while size > limit and (fullest := self._fullest()) is not None:
            size -= self._blocks[fullest].pop(0).block.nbytes
        self.nbytes = size

    def _fullest(self) -> int | None:
        sizes = {key: sum(each.block.nbytes for each in blocks) for key, blocks in self._blocks.items() if blocks}
        return max(sizes, key=lambda key: sizes[key]) if sizes else None


def _is_valid(block: TailBlock, entries: Sequence[Entry], epochs: Epochs | None, extent: LogExtent) -> bool:
    """Returns whether the log still has these records at these offsets."""
    known = epochs or extent.epochs
    if known is None or block.epoch != known.at(block.first) or block.end > extent.end:
        return False
    if block.end <= extent.sealed_end:
        # What was in memory only may have been sealed differently by another writer.
        return extent.tail is None
    if extent.tail is not None and block.first < extent.sealed_end:
        return False
    at = bisect_left(entries, block.end, key=_end)
    return at < len(entries) and entries[at].end == block.end and entries[at].chain == block.chain


def _missing(blocks: Sequence[TailBlock], wanted: OffsetRange, sealed_end: int) -> Missing:
    found = Missing([], [])
    position = wanted.start
    for first, end in [*((each.first, each.end) for each in blocks), (wanted.end, wanted.end)]:
        if first > position:
            below = OffsetRange(position, min(first, max(position, sealed_end)))
            above = OffsetRange(below.end, first)
            found.sealed.extend([below] if below.rows else [])
            found.unsealed.extend([above] if above.rows else [])
        position = max(position, end)
    return found


def _decoded(
    decoder: LogDecoder, partition: int, entries: Sequence[Entry], wanted: OffsetRange, epochs: Epochs | None
) -> Iterator[TailBlock]:
    """Decodes whole entries. A block ends where an entry ends."""
    run: list[Entry] = []
    rows = 0
    first = bisect_right(entries, wanted.start, key=_end)
    for entry in islice(entries, first, None):
        if entry.offset >= wanted.end:
            break
        if run and rows + entry.rows > UNIT_ROWS:
            yield _block_of(decoder, partition, run, epochs)
            run, rows = [], 0
        run.append(entry)
        rows += entry.rows
    if run:
        yield _block_of(decoder, partition, run, epochs)


def _block_of(decoder: LogDecoder, partition: int, run: list[Entry], epochs: Epochs | None) -> TailBlock:
    blocks = decoder.entries(partition, run)
    rows = _rows_of(blocks, decoder)
    epoch = epochs.at(run[0].offset) if epochs is not None else ""
    return TailBlock(run[0].offset, run[-1].end, epoch, run[-1].chain, Block.of(rows, decoder.time))


def _are_worth_joining(one: TailBlock, other: TailBlock) -> bool:
    """Returns whether two blocks are joined. As each row is copied when its block doubles, that is a few times."""
    first, second = len(one.block.rows), len(other.block.rows)
    return one.end == other.first and one.epoch == other.epoch and first + second <= UNIT_ROWS and first <= 2 * second


def _joined(one: TailBlock, other: TailBlock, decoder: LogDecoder) -> TailBlock:
    rows = _rows_of([one.block, other.block], decoder)
    (first, last), (second, newest) = one.block.bounds_ns, other.block.bounds_ns
    return TailBlock(
        one.first, other.end, one.epoch, other.chain, Block(rows, (min(first, second), max(last, newest)))
    )


def _rows_of(blocks: Sequence[Block], decoder: LogDecoder) -> pa.RecordBatch:
    found = [each.rows for each in blocks if len(each.rows)]
    return join_rows(found, decoder.rows) if found else blocks[0].rows


def _end(entry: Entry) -> int:
    return entry.end
