"""Tests that little is written to keep the number of files small, and that merging comes to an end."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.maintain.compaction.policy import (
    GROWTH,
    MOST_FILES,
    SMALL,
    Limits,
    SmallFile,
    choose,
    expected_files,
    next_closing_ms,
    worth_it,
)

TARGET = 100_000
NOW = 10_000_000
OPEN = Limits(TARGET, 5, closed_before_ms=0)
CLOSED = Limits(TARGET, 5, closed_before_ms=NOW)


def small(number: int, size: int, key: int = 0, written_ms: int = 1) -> SmallFile:
    return SmallFile(f"file-{number}", size, (key,), written_ms, number)


def smalls(sizes: list[int]) -> list[SmallFile]:
    return [small(number, size) for number, size in enumerate(sizes)]


def merged(files: list[SmallFile], groups: list[tuple[SmallFile, ...]], number: int) -> list[SmallFile]:
    """Returns the small files after these groups were merged."""
    gone = {file.path for group in groups for file in group}
    left = [file for file in files if file.path not in gone]
    for place, group in enumerate(groups):
        size = sum(file.size for file in group)
        if size < SMALL * TARGET:
            left.append(SmallFile(f"merged-{number}-{place}", size, group[0].key, 1, group[0].position))
    return left


@given(st.lists(st.integers(1, 74_999), min_size=1, max_size=200), st.booleans())
def test_merging_ends_and_leaves_few_files(sizes: list[int], closed: bool) -> None:
    files, rounds = smalls(sizes), 0
    while groups := choose(files, CLOSED if closed else OPEN):
        for group in groups:
            assert 2 <= len(group) <= MOST_FILES
            assert sum(file.size for file in group) <= 1.1 * TARGET
            total, largest = sum(file.size for file in group), max(file.size for file in group)
            assert closed or total >= GROWTH * largest or total >= SMALL * TARGET
        before = len(files)
        files = merged(files, groups, rounds)
        assert len(files) < before
        rounds += 1
    if closed:
        assert not worth_it([file.size for file in files], TARGET, 5) or len(files) < 2 * len(sizes)


def test_a_stream_is_written_few_times_and_has_few_files() -> None:
    """One file of 0.1 to 0.3 % of the target comes after the other, as from a mover."""
    rng = random.Random(7)
    files: list[SmallFile] = []
    came = written = most = 0
    for number in range(5_000):
        size = rng.randint(100, 300)
        came += size
        files.append(small(number, size))
        if number % 10 == 0 and (groups := choose(files, OPEN)):
            written += sum(file.size for group in groups for file in group)
            files = merged(files, groups, number)
        most = max(most, len(files))
    assert most < 35
    assert written / came < 4


def test_a_backlog_is_written_about_once() -> None:
    files, written, rounds = smalls([700] * 2_000), 0, 0
    while groups := choose(files, OPEN):
        written += sum(file.size for group in groups for file in group)
        files = merged(files, groups, rounds)
        rounds += 1
    assert written <= 2.1 * 700 * 2_000
    assert len(files) <= 12


def test_a_closed_partition_is_merged_once_more() -> None:
    sizes = [30_000, 8_000, 4_000, 2_000, 1_000]
    assert choose(smalls(sizes), OPEN) == []
    (group,) = choose(smalls(sizes), CLOSED)
    assert [file.size for file in group] == sizes
    assert next_closing_ms(smalls(sizes), OPEN) == 1
    assert next_closing_ms(smalls(sizes), CLOSED) is None


def test_newest_partitions_come_first_and_files_stay_in_time() -> None:
    old = [small(number, 10, key=1, written_ms=5) for number in range(9)]
    new = [small(number, 10, key=2, written_ms=9) for number in (13, 11, 12, 10, 14)]
    found = choose([*old, *new], OPEN)
    assert [group[0].key for group in found] == [(2,), (1,)]
    assert [file.position for file in found[0]] == [10, 11, 12, 13, 14]


@pytest.mark.parametrize(("sizes", "files"), [([65, 65], 2), ([20, 20], 1), ([100, 5], 1), ([100, 80], 2)])
def test_what_becomes_of_sizes(sizes: list[int], files: int) -> None:
    assert expected_files(sum(sizes), 100) == files


def test_too_few_files_are_left_alone() -> None:
    assert not worth_it([65, 65], 100, 2)
    assert worth_it([20, 20], 100, 2)
    assert not worth_it([20] * 4, 100, 5)
    assert worth_it([20] * 5, 100, 5)
