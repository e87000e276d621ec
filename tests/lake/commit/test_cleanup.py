"""Tests that files are deleted when nobody can ever commit them, and never before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import Table

from frazil.errors import CommitUnknown
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt
from frazil.lake.commit.cleanup import CleanupResult, OtherCommit, cleanup_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.outcomes import Committed
from frazil.lake.commit.proposals import CommitRequest, metadata_paths
from frazil.pipeline.decisions.rollback import replay_table
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    Fault,
    FaultyLake,
    compact,
    exists,
    expire,
    late_request,
    lost_reply,
    make_lake,
    make_table,
    read_rows,
    roll_back,
    span,
    write_attempt,
)


class World:
    def __init__(self, folder: Path) -> None:
        self.lake: Lake = make_lake(folder)
        self.faulty = FaultyLake(self.lake.config)
        make_table(self.lake)
        self.requests: dict[str, list[CommitRequest]] = {}

    @property
    def table(self) -> Table:
        return self.lake.load(NAME)

    def send(self, attempt: Attempt, *faults: Fault) -> object:
        """Commits an attempt. An unknown outcome stays unknown."""
        self.faulty.faults = [*faults]
        stored = self.requests.setdefault(attempt.id, [])
        try:
            return commit_add_files(
                self.faulty,
                self.table,
                attempt,
                on_request=stored.append,
                clock=lambda: NOW_MS,
                pause=lambda _: None,
            )
        except CommitUnknown:
            return None

    def commit(self, *ranges: tuple[int, int, int]) -> Attempt:
        attempt = write_attempt(self.table, *ranges)
        assert isinstance(self.send(attempt), Committed)
        return attempt

    def clean(self, attempt: Attempt, *done: Attempt) -> CleanupResult:
        return cleanup_attempt(
            self.lake,
            self.table,
            attempt.id,
            attempt.ranges,
            self.requests.get(attempt.id, []),
            [OtherCommit(each.id, each.ranges) for each in done],
        )

    def files(self, attempt: Attempt) -> list[str]:
        requests = self.requests.get(attempt.id, [])
        paths = [file.file_path for file in attempt.files]
        paths += [path for request in requests for path in metadata_paths(self.table, request.snapshot_id)]
        return [path for path in paths if exists(path)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_files_that_nobody_asked_to_commit_go_at_once(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10), (1, 0, 5))
    assert world.clean(attempt) == CleanupResult(2)
    assert world.files(attempt) == []
    assert world.clean(attempt) == CleanupResult(0)


def test_files_of_a_request_that_may_still_arrive_stay(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    assert world.send(attempt, *[late_request] * 5) is None
    assert world.clean(attempt) == CleanupResult(0, "a request to commit it may still be accepted")
    assert world.faulty.deliver_late()
    assert read_rows(world.lake) == span(0, 0, 10)
    assert world.clean(attempt).kept == "it is in the table"
    assert read_rows(world.lake) == span(0, 0, 10)


def test_a_compaction_is_not_enough(world: World) -> None:
    """The request cannot be accepted any more, but it may have been accepted before, as here."""
    world.commit((0, 0, 1))
    attempt = write_attempt(world.table, (0, 1, 10))
    world.send(attempt, lost_reply)
    compact(world.lake)
    expire(world.lake)
    assert world.clean(attempt).kept == "no other attempt is known to have committed the same rows"


def test_offsets_are_not_enough(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.send(attempt, lost_reply)
    later = world.commit((0, 10, 20))
    expire(world.lake)
    assert world.clean(attempt, later).kept == "no other attempt is known to have committed the same rows"
    assert read_rows(world.lake) == span(0, 0, 20)


def test_files_go_when_another_attempt_with_the_same_rows_is_on_main(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10), (1, 0, 4))
    world.send(attempt, *[late_request] * 5)
    assert len(world.files(attempt)) == 4
    world.commit((0, 0, 3))
    assert world.clean(attempt) == CleanupResult(4)
    assert world.files(attempt) == []
    assert not any(world.faulty.deliver_late() for _ in range(5))
    assert read_rows(world.lake) == span(0, 0, 3)


def test_the_same_offsets_of_another_partition_show_nothing(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.send(attempt, *[late_request] * 5)
    world.commit((1, 0, 10))
    assert world.clean(attempt).kept == "no other attempt is known to have committed the same rows"


def test_the_callers_own_log_is_evidence_where_snapshots_are_forgotten(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.send(attempt, *[late_request] * 5)
    done = world.commit((0, 0, 10))
    world.commit((0, 10, 11))
    expire(world.lake)
    assert world.clean(attempt).kept == "no other attempt is known to have committed the same rows"
    assert world.clean(attempt, attempt).kept == "no other attempt is known to have committed the same rows"
    assert world.clean(attempt, done) == CleanupResult(3)
    assert read_rows(world.lake) == span(0, 0, 11)


def test_older_snapshots_on_main_show_nothing(world: World) -> None:
    """After a replay by hand the same rows are on main twice."""
    world.commit((0, 0, 10))
    parent = world.table.metadata.current_snapshot_id
    assert parent is not None
    attempt = write_attempt(world.table, (0, 10, 20))
    world.send(attempt, *[late_request] * 5)
    world.commit((1, 0, 1))
    again = Attempt(**{**vars(attempt), "ranges": tuple(each._replace(start=5) for each in attempt.ranges)})
    world.requests[again.id] = world.requests[attempt.id]
    assert world.clean(again).kept == "no other attempt is known to have committed the same rows"


def test_files_that_a_snapshot_beside_main_refers_to_stay(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    before = world.table.metadata.current_snapshot_id
    assert before is not None
    world.send(attempt)
    roll_back(world.lake, before)
    replay_table(world.lake, world.table, {})
    world.commit((0, 0, 12))
    assert world.clean(attempt).kept == "a snapshot of the table refers to its files"
    assert len(world.files(attempt)) == 3
    assert read_rows(world.lake) == span(0, 0, 12)
