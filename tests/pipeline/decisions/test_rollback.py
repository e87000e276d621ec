"""Tests what a person can decide about a table that was rolled back."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import CasConflict, IcebergError, SegmentsGone, TableRolledBack
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.commit.outcomes import Committed
from frazil.pipeline.decisions.rollback import accept_table_state, replay_table
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    FaultyLake,
    copied,
    expire,
    make_lake,
    make_table,
    read_rows,
    roll_back,
    span,
    write_attempt,
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Makes a table that had offsets 0 to 20 of partition 0 and was rolled back to 10."""
    lake = make_lake(tmp_path)
    make_table(lake)
    back = commit(lake, (0, 0, 10))
    commit(lake, (0, 10, 20), (1, 0, 5))
    roll_back(lake, back)
    return lake


def commit(lake: Lake, *ranges: tuple[int, int, int]) -> int:
    table = lake.load(NAME)
    outcome = commit_add_files(lake, table, write_attempt(table, *ranges), clock=lambda: NOW_MS)
    assert isinstance(outcome, Committed)
    return outcome.snapshot_id


def test_replay_moves_the_rows_again(lake: Lake) -> None:
    replayed = replay_table(lake, lake.load(NAME), {0: 10, 1: 0})
    assert TableState.of(replayed).offsets == {0: 10, 1: 0}
    check_not_rolled_back(lake.load(NAME))
    assert read_rows(lake) == span(0, 0, 10)
    commit(lake, (0, 10, 20), (1, 0, 5))
    assert read_rows(lake) == span(0, 0, 20) + span(1, 0, 5)


def test_replay_is_refused_with_both_numbers_when_the_log_has_gone_on(lake: Lake) -> None:
    with pytest.raises(SegmentsGone, match=r"partition 0: rows up to 10, log from 12\. .*resume events --accept"):
        replay_table(lake, lake.load(NAME), {0: 12, 1: 0})
    assert TableState.of(lake.load(NAME)).offsets == {0: 20, 1: 5}


def test_accept_goes_on_without_the_rows(lake: Lake) -> None:
    accepted = accept_table_state(lake, lake.load(NAME))
    assert TableState.of(accepted).offsets == {0: 20, 1: 5}
    check_not_rolled_back(lake.load(NAME))
    commit(lake, (0, 20, 22))
    assert read_rows(lake) == span(0, 0, 10) + span(0, 20, 22)


def test_rows_that_came_back_are_not_moved_twice(lake: Lake) -> None:
    """The table is rolled back, replayed, and then set forward again: the rows are ahead of the offsets."""
    forward = lake.load(NAME).snapshots()[-1].snapshot_id
    replay_table(lake, lake.load(NAME), {})
    table = roll_back(lake, forward)
    with pytest.raises(TableRolledBack, match="partition 0: rows up to 20, properties say 10"):
        check_not_rolled_back(table)
    accept_table_state(lake, table)
    commit(lake, (0, 20, 22))
    assert read_rows(lake) == span(0, 0, 22) + span(1, 0, 5)


def test_there_must_be_something_to_decide(lake: Lake) -> None:
    table = replay_table(lake, lake.load(NAME), {})
    with pytest.raises(IcebergError, match="was not rolled back"):
        replay_table(lake, table, {})
    with pytest.raises(IcebergError, match="was not rolled back"):
        accept_table_state(lake, table)


@pytest.mark.parametrize("replay", [True, False])
def test_a_decision_about_a_table_that_has_changed_since_is_refused(lake: Lake, replay: bool) -> None:
    stale = lake.load(NAME)
    accept_table_state(lake, lake.load(NAME))
    with pytest.raises(CasConflict):
        replay_table(lake, stale, {}) if replay else accept_table_state(lake, stale)
    assert TableState.of(lake.load(NAME)).offsets == {0: 20, 1: 5}


def test_requests_sent_before_the_decision_do_nothing_after_it(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    table = make_table(lake)
    slow = FaultyLake(lake.config)
    slow.faults = [copied]
    commit_add_files(slow, table, write_attempt(table, (0, 0, 10)), clock=lambda: NOW_MS)
    first = table.metadata.current_snapshot_id
    assert first is not None
    # Once the snapshot itself has expired, only the decision prevents that its rows are moved again.
    roll_back(lake, first)
    replay_table(lake, lake.load(NAME), {})
    expire(lake)
    assert not slow.deliver_late()
    assert read_rows(lake) == []
