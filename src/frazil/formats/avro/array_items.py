"""Finds where the items of arrays and maps begin.

Items come in blocks, each after its number of items. An item's start is known only once the items before it have been
skipped. So the first items of all arrays are skipped together, then the second ones, and so on. Once all are found,
they are read together in their order. A few long arrays that remain are skipped item by item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from frazil.formats.avro.nodes import MalformedValue, Node, read_long
from frazil.formats.avro.reader import NOWHERE, Ints, Reader, Slots

MAX_EMPTY_ITEMS = 64
"""The most items of an array whose items take no bytes. A number alone must not fill the memory."""

_FEW_ARRAYS = 24
"""So few remaining arrays are not worth moving together."""
ITEMS_TOGETHER = 8
"""The number of items that are always skipped together first."""


class Items(NamedTuple):
    counts: Ints
    """The number of items of each array."""
    slots: Slots
    """The slots of all items, array by array."""


class _ItemStarts:
    """Collects where items begin, in the order in which they are found."""

    def __init__(self, arrays: int) -> None:
        self.counts = np.zeros(arrays, np.int64)
        """The number of items in each array before the current block."""
        self._batches: list[tuple[Ints, Ints, Ints]] = []

    def add(self, arrays: Ints, numbers: Ints, starts: Ints) -> None:
        """Adds items of these arrays, each by its number within the array."""
        self._batches.append((arrays, numbers, starts))

    def in_order(self) -> Ints:
        firsts = np.cumsum(self.counts) - self.counts
        ordered = np.zeros(int(self.counts.sum()), np.int64)
        for arrays, numbers, starts in self._batches:
            ordered[firsts[arrays] + numbers] = starts
        return ordered


def find_items(reader: Reader, slots: Slots, item: Node, path: str) -> Items:
    """Returns all items of the array at each slot, and moves the slots behind the arrays."""
    ends, rows = slots.end.copy(), slots.row
    found = _ItemStarts(len(slots))
    places, here, blocks = np.arange(len(slots)), slots, 0
    while len(places) and (len(places) > _FEW_ARRAYS or blocks <= ITEMS_TOGETHER):
        blocks += 1
        counts = _block(reader, here, item, found.counts[places], path)
        filled = np.flatnonzero(counts)
        block = here.at(filled)
        if len(filled):
            _pass_block(reader, block, item, places[filled], counts[filled], found, path)
        if here is not slots:
            slots.pos[places], slots.end[places] = here.pos, here.end
        places = places[filled]
        slots.pos[places], slots.end[places] = block.pos, block.end
        going = np.flatnonzero(block.end != NOWHERE)
        places, here = (places, block) if len(going) == len(places) else (places[going], block.at(going))
    for place in places.tolist():
        _pass_blocks_alone(reader, slots, item, place, found, path)
    return Items(
        found.counts,
        Slots(found.in_order(), np.repeat(ends, found.counts), np.repeat(rows, found.counts)),
    )


def step_items(data: memoryview, pos: int, item: Node) -> int:
    """Returns where the array that begins at `pos` ends."""
    while True:
        count, pos = _step_block(data, pos, item)
        if count == 0:
            return pos
        if item.size is not None:
            pos += count * item.size
        else:
            for _ in range(count):
                pos = item.step(data, pos)


def _step_block(data: memoryview, pos: int, item: Node) -> tuple[int, int]:
    """Returns the number of items in the next block of one array, and where they begin."""
    count, pos = read_long(data, pos)
    if count < 0:
        count = -count
        _, pos = read_long(data, pos)
    if count * item.least > len(data) - pos:
        raise MalformedValue
    return count, pos


def _block(reader: Reader, slots: Slots, item: Node, before: Ints, path: str) -> Ints:
    """Returns the number of items in the next block of each array. It is never more than there are bytes for."""
    counts = reader.longs(slots, path)
    negative = np.flatnonzero(counts < 0)
    if len(negative):
        # The number of bytes follows, for readers that skip the block.
        sized = slots.at(negative)
        reader.longs(sized, path)
        slots.pos[negative], slots.end[negative] = sized.pos, sized.end
        counts[negative] = -counts[negative]
    room = slots.end - slots.pos if item.least else MAX_EMPTY_ITEMS - before
    wrong = (counts > room) | (counts < 0)
    if item.least > 1:
        wrong |= counts * item.least > room
    if wrong.any():
        reader.fail(slots, wrong, f"{path} has an impossible number of items")
        counts[wrong] = 0
    counts[slots.end == NOWHERE] = 0
    return counts


def _pass_block(
    reader: Reader, slots: Slots, item: Node, arrays: Ints, counts: Ints, found: _ItemStarts, path: str
) -> None:
    """Notes where the items of a block begin, and moves the slots behind it."""
    before = found.counts[arrays]
    if item.size is not None:
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(slots.pos, counts) + within * item.size
        found.add(np.repeat(arrays, counts), np.repeat(before, counts) + within, starts)
        slots.pos += counts * item.size
    else:
        counts = _pass_together(reader, slots, item, arrays, counts, found, path)
    found.counts[arrays] += counts


def _pass_together(
    reader: Reader, slots: Slots, item: Node, arrays: Ints, counts: Ints, found: _ItemStarts, path: str
) -> Ints:
    """Skips the items of all arrays together. Returns the number of items found in each, which is smaller than
    counted where something is wrong."""
    before, passed = found.counts[arrays], np.zeros(len(slots), np.int64)
    places, now, number = np.arange(len(slots)), slots, 0
    while len(places) and (len(places) > _FEW_ARRAYS or number < ITEMS_TOGETHER):
        found.add(arrays[places], before[places] + number, now.pos.copy())
        item.skip(reader, now)
        number += 1
        if now is not slots:
            slots.pos[places], slots.end[places] = now.pos, now.end
        passed[places] = number
        more = np.flatnonzero((counts[places] > number) & (now.end != NOWHERE))
        if len(more) < len(places):
            places, now = places[more], now.at(more)
    for place in places.tolist():
        starts = _pass_alone(reader, slots, item, place, int(counts[place]) - number, path)
        found.add(np.full(len(starts), arrays[place]), before[place] + number + np.arange(len(starts)), starts)
        passed[place] += len(starts)
    return passed


def _pass_alone(reader: Reader, slots: Slots, item: Node, place: int, count: int, path: str) -> Ints:
    """Skips `count` items of one array, and returns where each begins."""
    pos, starts = int(slots.pos[place]), list[int]()
    data = reader.data.data[: int(slots.end[place])]
    try:
        slots.pos[place] = _step_all(data, pos, item, count, starts)
    except (MalformedValue, IndexError):
        reader.fail(slots, np.arange(len(slots)) == place, f"it ends within {path}")
    return np.array(starts, np.int64)


def _pass_blocks_alone(reader: Reader, slots: Slots, item: Node, place: int, found: _ItemStarts, path: str) -> None:
    """Skips the rest of one array that has more blocks than the others."""
    pos, starts = int(slots.pos[place]), list[int]()
    data, before = reader.data.data[: int(slots.end[place])], int(found.counts[place])
    try:
        count, pos = _step_block(data, pos, item)
        while count:
            if not item.least and before + len(starts) + count > MAX_EMPTY_ITEMS:
                raise MalformedValue
            pos = _step_all(data, pos, item, count, starts)
            count, pos = _step_block(data, pos, item)
        slots.pos[place] = pos
    except (MalformedValue, IndexError):
        reader.fail(slots, np.arange(len(slots)) == place, f"it ends within {path}")
    found.add(np.full(len(starts), place), before + np.arange(len(starts)), np.array(starts, np.int64))
    found.counts[place] += len(starts)


def _step_all(data: memoryview, pos: int, item: Node, count: int, starts: list[int]) -> int:
    """Returns the position behind `count` items, and notes where each begins."""
    for _ in range(count):
        starts.append(pos)
        pos = item.step(data, pos)
        if pos > len(data):
            raise MalformedValue
    return pos
