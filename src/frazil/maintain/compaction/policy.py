"""Chooses which files are merged, so that tables have few files and no row is written often.

Only files below three quarters of the table's target size are merged: larger ones are in shape. A partition is open
as long as files come into it, and closed some minutes after the last.

- In an open partition, files are merged only if the result is at least `GROWTH` times as large as each of them, or is
  large enough to be in shape. So a row is written at most log(target / first size) / log(GROWTH) times and once more:
  six times from 1 MB to 512 MB, and mostly two or three times, because many files come together. The sizes that are
  left grow in steps, so a partition has few of them.
- In a closed partition, small files are merged once more if they become at most half as many.

What is merged together is close together in time, so that a file still tells by its statistics which times it has.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SMALL = 0.75
"""A file below this part of the target size is small. It is Spark's own limit."""
GROWTH = 4
"""A file that is merged in an open partition becomes at least this many times as large."""
MOST_FILES = 32
"""This many files are merged at a time. Of each, a page of every column is in memory."""
_SPILL = 1.1
"""A file may be larger than the target by this factor, instead of two files. It is Spark's own limit, too."""
_FINAL_GROWTH = 2
"""In a closed partition, few files are merged only if the largest of them becomes this many times as large."""

Key = tuple[object, ...]


class SmallFile(NamedTuple):
    path: str
    size: int
    key: Key
    """The values of its partition."""
    written_ms: int
    position: int
    """Its place in time among the files of the table, such as its first offset."""


@dataclass(frozen=True)
class Limits:
    target: int
    min_input_files: int
    closed_before_ms: int
    """A partition into which no file came after this time is closed."""


def expected_files(total: int, target: int) -> int:
    """Returns how many files so many bytes become."""
    if total <= target:
        return 1
    fewer = total // target
    return (
        fewer if total / fewer < _SPILL * target and total % target <= SMALL * target else math.ceil(total / target)
    )


def worth_it(sizes: Sequence[int], target: int, min_input_files: int) -> bool:
    count = len(sizes)
    return count >= max(2, min_input_files) and expected_files(sum(sizes), target) <= count / 2


def choose(files: Iterable[SmallFile], limits: Limits) -> list[tuple[SmallFile, ...]]:
    """Returns the groups to merge. Those with the newest rows come first, and of these the ones with most files."""
    partitions: defaultdict[Key, list[SmallFile]] = defaultdict(list)
    for file in files:
        partitions[file.key].append(file)
    found = []
    for each in partitions.values():
        newest = max(file.written_ms for file in each)
        groups = _closed(each, limits) if newest < limits.closed_before_ms else _open(each, limits)
        found += [(newest, len(group), group) for group in groups]
    return [group for _, _, group in sorted(found, key=lambda each: each[:2], reverse=True)]


def next_closing_ms(files: Iterable[SmallFile], limits: Limits) -> int | None:
    """Returns the time of the oldest newest file of the open partitions, which close one after the other."""
    newest: dict[Key, int] = {}
    for file in files:
        newest[file.key] = max(file.written_ms, newest.get(file.key, 0))
    return min((each for each in newest.values() if each >= limits.closed_before_ms), default=None)


def _closed(files: list[SmallFile], limits: Limits) -> list[tuple[SmallFile, ...]]:
    if not worth_it([file.size for file in files], limits.target, limits.min_input_files):
        return []
    return [group for group in _in_time(files, limits.target) if _final_is_worth_it(group, limits)]


def _final_is_worth_it(group: Sequence[SmallFile], limits: Limits) -> bool:
    total, largest = sum(file.size for file in group), max(file.size for file in group)
    return len(group) >= 2 and (len(group) >= limits.min_input_files or total >= _FINAL_GROWTH * largest)


def _open(files: list[SmallFile], limits: Limits) -> list[tuple[SmallFile, ...]]:
    by_size = sorted(files, key=lambda file: file.size)
    total = chosen = 0
    for count, file in enumerate(by_size, 1):
        total += file.size
        if _grows(total, file.size, limits.target):
            chosen = count
    groups = (_growing(group, limits.target) for group in _in_time(by_size[:chosen], limits.target))
    return [group for group in groups if len(group) >= limits.min_input_files or _in_shape(group, limits.target)]


def _grows(total: int, largest: int, target: int) -> bool:
    return total >= GROWTH * largest or total >= SMALL * target


def _in_shape(group: Sequence[SmallFile], target: int) -> bool:
    return len(group) > 1 and sum(file.size for file in group) >= SMALL * target


def _growing(group: Sequence[SmallFile], target: int) -> tuple[SmallFile, ...]:
    """Returns the group without its largest files, so that each of the others grows enough."""
    total = sum(file.size for file in group)
    left = list(group)
    while left and not _grows(total, (largest := max(left, key=lambda file: file.size)).size, target):
        left.remove(largest)
        total -= largest.size
    return tuple(left)


def _in_time(files: Iterable[SmallFile], target: int) -> list[tuple[SmallFile, ...]]:
    """Cuts files, ordered by time, into groups of about the target size."""
    groups: list[list[SmallFile]] = []
    size = 0
    for file in sorted(files, key=lambda each: (each.position, each.path)):
        if not groups or size + file.size > _SPILL * target or len(groups[-1]) == MOST_FILES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [tuple(group) for group in groups]
