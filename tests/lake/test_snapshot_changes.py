from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import IcebergError
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.outcomes import Committed
from frazil.lake.snapshot_changes import plan_scan
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    compact,
    expire,
    live_files,
    make_lake,
    make_table,
    roll_back,
    write_attempt,
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = make_lake(tmp_path)
    make_table(lake)
    return lake


def commit(lake: Lake, start: int, end: int) -> tuple[int, str]:
    """Commits rows, and returns the snapshot and its only file."""
    table = lake.load(NAME)
    attempt = write_attempt(table, (0, start, end))
    outcome = commit_add_files(lake, table, attempt, clock=lambda: NOW_MS)
    assert isinstance(outcome, Committed)
    return outcome.snapshot_id, attempt.files[0].file_path


def plan(lake: Lake, start: int | None = None, stop: int | None = None) -> tuple[set[str], set[str]]:
    found = plan_scan(lake.load(NAME), start, stop)
    assert found.row_deletes == []
    return {file.file_path for file in found.added}, {file.file_path for file in found.deleted}


def test_appends_are_what_they_added(lake: Lake) -> None:
    (one, a), (two, b), (three, c) = commit(lake, 0, 1), commit(lake, 1, 2), commit(lake, 2, 3)
    assert plan(lake) == ({a, b, c}, set())
    assert plan(lake, one) == ({b, c}, set())
    assert plan(lake, one, two) == ({b}, set())
    assert plan(lake, three) == (set(), set())
    assert plan(lake, None, two) == ({a, b}, set())
    assert plan_scan(lake.load(NAME), one, two).added[0].record_count == 1


def test_a_compaction_takes_files_away_and_adds_one(lake: Lake) -> None:
    (_, a), (two, b), (_, c) = commit(lake, 0, 1), commit(lake, 1, 2), commit(lake, 2, 9)
    compact(lake)
    (whole,) = live_files(lake.load(NAME)).keys() - {c}
    assert plan(lake, two) == ({c, whole}, {a, b})
    assert plan(lake) == ({c, whole}, set())


def test_a_file_that_came_and_went_is_not_told(lake: Lake) -> None:
    one, a = commit(lake, 0, 1)
    commit(lake, 1, 2)
    commit(lake, 2, 3)
    compact(lake, count=3)
    (whole,) = live_files(lake.load(NAME))
    assert plan(lake, one) == ({whole}, {a})


def test_snapshots_of_different_lines_are_refused(lake: Lake) -> None:
    one, _ = commit(lake, 0, 1)
    two, _ = commit(lake, 1, 2)
    roll_back(lake, one)
    compact(lake)
    with pytest.raises(IcebergError, match=f"{two} is not an ancestor of {one}"):
        plan(lake, two)


def test_an_expired_snapshot_is_said_to_be_gone(lake: Lake) -> None:
    one, a = commit(lake, 0, 1)
    _, b = commit(lake, 1, 2)
    expire(lake)
    with pytest.raises(IcebergError, match=f"no snapshot {one}: it has expired"):
        plan(lake, one)
    assert plan(lake) == ({a, b}, set())
