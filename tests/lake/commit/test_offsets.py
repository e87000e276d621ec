"""Tests the committed offsets of a table, and the detection of rollbacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import IcebergError, TableForeign, TableRolledBack
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.commit.outcomes import Committed
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    SCHEMA,
    compact,
    expire,
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


def commit(lake: Lake, *ranges: tuple[int, int, int]) -> int:
    table = lake.load(NAME)
    outcome = commit_add_files(lake, table, write_attempt(table, *ranges), clock=lambda: NOW_MS)
    assert isinstance(outcome, Committed)
    return outcome.snapshot_id


def set_properties(lake: Lake, **properties: str) -> None:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    lake.load(NAME).transaction().set_properties(named).commit_transaction()


def test_the_state_of_a_table(lake: Lake) -> None:
    snapshot = commit(lake, (0, 0, 7))
    state = TableState.of(lake.load(NAME))
    assert (state.topic, state.role, state.snapshot_id) == ("events", "base", snapshot)
    assert (state.schema_id, state.spec_id) == (0, 0)
    assert [state.next_offset(partition) for partition in range(3)] == [7, 0, None]
    assert state.epochs == {0: "epoch-0"}


def test_a_table_of_somebody_else_is_said_to_be_one(lake: Lake) -> None:
    with pytest.raises(TableForeign, match=r"frazil\.other was not made by Frazil"):
        TableState.of(lake.catalog.create_table(("frazil", "other"), SCHEMA))


def test_an_offset_that_is_none_is_named(lake: Lake) -> None:
    set_properties(lake, frazil_offset_1="ten")
    with pytest.raises(IcebergError, match=r"frazil\.offset\.1 = 'ten'"):
        TableState.of(lake.load(NAME))


def test_rows_and_offsets_agree_through_commits_compaction_and_expiry(lake: Lake) -> None:
    check_not_rolled_back(lake.load(NAME))
    commit(lake, (0, 0, 5))
    commit(lake, (1, 0, 5))
    check_not_rolled_back(lake.load(NAME))
    compact(lake)
    check_not_rolled_back(lake.load(NAME))
    expire(lake)
    check_not_rolled_back(lake.load(NAME))


def test_a_table_that_went_back_is_found_out(lake: Lake) -> None:
    first = commit(lake, (0, 0, 5))
    commit(lake, (0, 5, 9), (1, 0, 3))
    table = roll_back(lake, first)
    with pytest.raises(TableRolledBack) as raised:
        check_not_rolled_back(table)
    said = str(raised.value)
    assert "partition 0: rows up to 5, properties say 9, partition 1: rows up to 0, properties say 3" in said
    assert "frazil topics resume events --replay" in said
    assert "--accept" in said


def test_a_table_that_went_back_is_found_out_though_a_compaction_is_the_newest(lake: Lake) -> None:
    commit(lake, (0, 0, 5))
    first = commit(lake, (0, 5, 6))
    commit(lake, (0, 6, 9))
    roll_back(lake, first)
    compact(lake)
    with pytest.raises(TableRolledBack, match="rows up to 6, properties say 9"):
        check_not_rolled_back(lake.load(NAME))


def test_going_back_before_a_compaction_only_loses_nothing(lake: Lake) -> None:
    commit(lake, (0, 0, 5))
    last = commit(lake, (1, 0, 5))
    compact(lake)
    check_not_rolled_back(roll_back(lake, last))


def test_offsets_changed_by_hand_are_found_out_in_both_directions(lake: Lake) -> None:
    commit(lake, (0, 0, 5))
    set_properties(lake, frazil_offset_0="4")
    with pytest.raises(TableRolledBack, match="rows up to 5, properties say 4"):
        check_not_rolled_back(lake.load(NAME))
    set_properties(lake, frazil_offset_0="6")
    with pytest.raises(TableRolledBack, match="rows up to 5, properties say 6"):
        check_not_rolled_back(lake.load(NAME))


def test_without_any_map_the_properties_are_trusted(lake: Lake) -> None:
    commit(lake, (0, 0, 5))
    commit(lake, (0, 5, 6))
    compact(lake)
    expire(lake)
    set_properties(lake, frazil_offset_0="4")
    check_not_rolled_back(lake.load(NAME))
