"""Tests that files take the place of others only while that changes no row."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from frazil.backoff import Backoff
from frazil.errors import CommitUnknown, TableRolledBack
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import (
    ATTEMPT,
    RANGES,
    TableState,
    check_not_rolled_back,
    current_snapshot,
    snapshot_offsets,
    summary_of,
)
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.replace import Discarded, Replacement, commit_replacement
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    FaultyLake,
    between,
    drop_file,
    expire,
    late_request,
    live_files,
    lost_reply,
    make_lake,
    make_table,
    read_rows,
    roll_back,
    span,
    write_attempt,
    write_replacement,
)

FEW = Backoff(max_attempts=3)


def moved(lake: Lake, batches: int) -> None:
    for _ in range(batches):
        table = lake.load(NAME)
        start = TableState.of(table).offsets[0]
        assert isinstance(commit_add_files(lake, table, write_attempt(table, (0, start, start + 5))), Committed)


def merged(lake: Lake, count: int = 3) -> Replacement:
    made = write_replacement(lake.load(NAME), count)
    assert made is not None
    return made


def commit(
    lake: Lake, replacement: Replacement, now_ms: int = NOW_MS, requests: list[CommitRequest] | None = None
) -> Committed | Discarded:
    return commit_replacement(
        lake,
        lake.load(NAME),
        replacement,
        on_request=(requests if requests is not None else []).append,
        clock=lambda: now_ms,
        pause=lambda _: None,
        tries=FEW,
    )


@pytest.fixture
def lake(tmp_path: Path) -> FaultyLake:
    made = FaultyLake(make_lake(tmp_path).config)
    make_table(made, {0: 0})
    moved(made, 4)
    return made


def test_rows_stay_and_the_snapshot_is_a_replacement(lake: FaultyLake) -> None:
    replacement = merged(lake)
    outcome = commit(lake, replacement)
    assert isinstance(outcome, Committed)
    table = lake.load(NAME)
    snapshot = current_snapshot(table)
    assert snapshot.summary is not None
    assert snapshot.summary.operation == Operation.REPLACE
    assert summary_of(snapshot)[ATTEMPT] == replacement.id
    assert RANGES not in summary_of(snapshot)
    assert summary_of(snapshot)["total-records"] == "20"
    assert (snapshot_offsets(table), TableState.of(table).offsets) == ({0: 20}, {0: 20})
    assert len(live_files(table)) == 2
    assert read_rows(lake) == span(0, 0, 20)


def test_a_rollback_is_found_with_only_the_newest_snapshot_left(lake: FaultyLake) -> None:
    """A catalog that forgets all other snapshots has the offsets of the rows in this one."""
    commit(lake, merged(lake))
    compacted = current_snapshot(lake.load(NAME)).snapshot_id
    expire(lake)
    check_not_rolled_back(lake.load(NAME))
    moved(lake, 1)
    roll_back(lake, compacted)
    with pytest.raises(TableRolledBack, match="partition 0: rows up to 20, properties say 25"):
        check_not_rolled_back(lake.load(NAME))
    with pytest.raises(TableRolledBack):
        commit(lake, merged(lake, 2))


def test_a_mover_that_commits_meanwhile_is_no_obstacle(lake: FaultyLake) -> None:
    replacement = merged(lake)
    moved(lake, 2)
    lake.faults = [between(lambda: moved(make_lake(lake.config.data_dir), 1))]
    requests: list[CommitRequest] = []
    assert isinstance(commit(lake, replacement, requests=requests), Committed)
    assert len(requests) == 2
    assert snapshot_offsets(lake.load(NAME)) == {0: 35}
    assert read_rows(lake) == span(0, 0, 35)


def test_another_compaction_comes_first(lake: FaultyLake) -> None:
    late, first = merged(lake), merged(lake, 2)
    assert isinstance(commit(lake, first), Committed)
    outcome = commit(lake, late)
    assert isinstance(outcome, Discarded)
    assert "2 of 3 files that it replaces have left the table" in outcome.reason
    assert read_rows(lake) == span(0, 0, 20)


def test_rows_that_were_dropped_do_not_come_back(lake: FaultyLake) -> None:
    replacement = merged(lake, 4)
    gone = drop_file(lake, 0)
    assert isinstance(commit(lake, replacement), Discarded)
    assert read_rows(lake) == sorted(set(span(0, 0, 20)) - set(gone))


def test_a_new_schema_or_age_discards_it(lake: FaultyLake) -> None:
    replacement = merged(lake)
    outcome = commit(lake, replacement, now_ms=NOW_MS + 13 * 3_600_000)
    assert isinstance(outcome, Discarded)
    assert "older than 12 hours" in outcome.reason
    with lake.load(NAME).update_schema() as update:
        update.add_column("more", StringType())
    outcome = commit(lake, replacement)
    assert isinstance(outcome, Discarded)
    assert "schema" in outcome.reason


def test_a_lost_answer_is_found_in_the_table(lake: FaultyLake) -> None:
    replacement = merged(lake)
    lake.faults = [lost_reply]
    outcome = commit(lake, replacement)
    assert isinstance(outcome, Committed)
    assert outcome.found_done_already
    assert read_rows(lake) == span(0, 0, 20)


def test_a_request_that_arrives_late_does_no_harm(lake: FaultyLake) -> None:
    replacement = merged(lake)
    lake.faults = [late_request] * 3
    with pytest.raises(CommitUnknown):
        commit(lake, replacement)
    moved(lake, 1)
    while lake.late:
        assert not lake.deliver_late()
    assert isinstance(commit(lake, replacement), Committed)
    assert read_rows(lake) == span(0, 0, 25)
