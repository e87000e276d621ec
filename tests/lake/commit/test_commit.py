"""Tests every way in which a commit can end, on a real catalog, by what a fresh reader finds in the table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse
from pyiceberg.types import IntegerType, NestedField, StringType

from frazil.backoff import Backoff
from frazil.errors import (
    CasConflict,
    CommitUnknown,
    FrazilError,
    IcebergError,
    SnapshotCommit,
    TableReplaced,
    TableRolledBack,
    WriteFailed,
)
from frazil.failpoints import VARIABLE
from frazil.lake.commit.attempts import Attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Clipped, Committed, Outcome, Rewrite, Superseded
from frazil.lake.commit.proposals import CommitRequest, metadata_paths
from frazil.lake.commit.ranges import Range
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    Deliver,
    Fault,
    FaultyLake,
    between,
    compact,
    conflict,
    copied,
    exists,
    expire,
    failed_server,
    failed_server_done,
    late_request,
    lost_reply,
    lost_request,
    make_lake,
    make_table,
    read_rows,
    roll_back,
    sent_twice,
    span,
    write_attempt,
)

HOUR_MS = 3_600_000


class World:
    """A lake with faults for the process under test, and one without for all others."""

    def __init__(self, folder: Path) -> None:
        self.lake = FaultyLake(make_lake(folder).config)
        self.others = make_lake(folder)
        self.table = make_table(self.others)
        self.requests: list[CommitRequest] = []
        self.waited: list[float] = []

    def commit(self, attempt: Attempt, *faults: Fault, tries: int = 5, now_ms: int = NOW_MS) -> Outcome:
        self.lake.faults = list(faults)
        outcome = commit_add_files(
            self.lake,
            self.table,
            attempt,
            on_request=self.requests.append,
            clock=lambda: now_ms,
            pause=self.waited.append,
            tries=Backoff(max_attempts=tries),
        )
        assert not self.lake.faults, "not all faults were met"
        return outcome

    def other_commits(self, *ranges: tuple[int, int, int]) -> None:
        table = self.others.load(NAME)
        outcome = commit_add_files(self.others, table, write_attempt(table, *ranges), clock=lambda: NOW_MS)
        assert isinstance(outcome, Committed)

    def offsets(self) -> dict[int, int]:
        return dict(TableState.of(self.others.load(NAME)).offsets)

    def rows(self) -> list[tuple[int, int]]:
        return read_rows(self.others)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_rows_and_offsets_move_in_one_snapshot_that_says_who_did_it(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10), (1, 0, 5))
    outcome = world.commit(attempt)
    assert isinstance(outcome, Committed)
    assert not outcome.found_done_already
    assert world.rows() == span(0, 0, 10) + span(1, 0, 5)
    table = world.others.load(NAME)
    assert outcome.table.metadata == table.metadata
    state = TableState.of(table)
    assert state.offsets == {0: 10, 1: 5}
    assert state.epochs == {0: "epoch-0", 1: "epoch-1"}
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.snapshot_id == outcome.snapshot_id
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert said["frazil.attempt"] == attempt.id
    assert json.loads(said["frazil.offsets"]) == {"0": 10, "1": 5}
    assert json.loads(said["frazil.ranges"]) == [[0, 0, 10], [1, 0, 5]]
    assert said["frazil.spark.application"] == "local-1"
    assert json.loads(said["frazil.spark.tasks"]) == [0, 1]
    assert said["total-records"] == "15"


def test_the_map_of_a_snapshot_has_the_partitions_it_did_not_move_too(world: World) -> None:
    world.other_commits((1, 0, 3))
    world.table = world.others.load(NAME)
    world.commit(write_attempt(world.table, (0, 0, 2)))
    summary = world.others.load(NAME).snapshots()[-1].summary
    assert summary is not None
    assert json.loads(summary["frazil.offsets"] or "") == {"0": 2, "1": 3}


def test_an_empty_range_moves_the_offsets_with_a_snapshot(world: World) -> None:
    world.other_commits((0, 0, 4))
    world.table = world.others.load(NAME)
    assert isinstance(world.commit(write_attempt(world.table, (0, 4, 9), empty=True)), Committed)
    assert world.offsets() == {0: 9, 1: 0}
    assert world.rows() == span(0, 0, 4)
    assert world.others.load(NAME).snapshots()[-1].snapshot_id != world.table.metadata.current_snapshot_id


def test_files_keep_their_sequence_through_many_commits(world: World) -> None:
    """Sequence numbers decide which files the row-level deletes of other engines apply to."""
    for start in range(0, 40, 10):
        world.table = world.others.load(NAME)
        world.commit(write_attempt(world.table, (0, start, start + 10)))
    table = world.others.load(NAME)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    entries = [entry for each in snapshot.manifests(table.io) for entry in each.fetch_manifest_entry(table.io)]
    by_path = sorted(entries, key=lambda entry: entry.sequence_number or 0)
    assert [entry.sequence_number for entry in by_path] == [2, 3, 4, 5]
    assert [entry.file_sequence_number for entry in by_path] == [2, 3, 4, 5]
    assert [entry.snapshot_id for entry in by_path] == [each.snapshot_id for each in table.snapshots()[1:]]
    assert world.rows() == span(0, 0, 40)


@pytest.mark.parametrize("fault", [lost_reply, failed_server_done, sent_twice])
def test_a_request_that_was_done_though_it_seemed_to_fail_is_found(world: World, fault: Fault) -> None:
    outcome = world.commit(write_attempt(world.table, (0, 0, 10)), fault)
    assert isinstance(outcome, Committed)
    assert outcome.found_done_already
    assert outcome.snapshot_id == world.requests[0].snapshot_id
    assert world.rows() == span(0, 0, 10)
    assert world.lake.sent == 1


def test_a_request_that_was_done_is_found_though_others_have_committed_since(world: World) -> None:
    def lost_and_passed(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
        try:
            return lost_reply(lake, deliver)
        finally:
            world.other_commits((0, 10, 20), (1, 0, 5))

    outcome = world.commit(write_attempt(world.table, (0, 0, 10)), lost_and_passed)
    assert isinstance(outcome, Committed)
    assert outcome.snapshot_id == world.requests[0].snapshot_id
    assert world.rows() == span(0, 0, 20) + span(1, 0, 5)


def test_a_request_that_was_done_is_found_by_its_files_when_its_snapshot_is_forgotten(world: World) -> None:
    def lost_and_forgotten(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
        try:
            return lost_reply(lake, deliver)
        finally:
            world.other_commits((0, 10, 20))
            expire(world.others)

    outcome = world.commit(write_attempt(world.table, (0, 0, 10)), lost_and_forgotten)
    assert isinstance(outcome, Committed)
    assert outcome.snapshot_id == world.requests[0].snapshot_id
    assert world.rows() == span(0, 0, 20)


@pytest.mark.parametrize("fault", [lost_request, failed_server, conflict])
def test_a_request_that_was_not_done_is_sent_again_as_it_was(world: World, fault: Fault) -> None:
    outcome = world.commit(write_attempt(world.table, (0, 0, 10)), fault, fault)
    assert isinstance(outcome, Committed)
    assert not outcome.found_done_already
    assert [each.snapshot_id for each in world.requests] == [outcome.snapshot_id]
    assert world.lake.sent == 3
    assert world.waited[1] > world.waited[0] > 0
    assert world.rows() == span(0, 0, 10)


def test_of_a_request_and_its_late_copy_one_is_done(world: World) -> None:
    outcome = world.commit(write_attempt(world.table, (0, 0, 10)), late_request)
    assert isinstance(outcome, Committed)
    assert not world.lake.deliver_late()
    assert world.rows() == span(0, 0, 10)


def test_a_late_request_that_arrives_before_its_copy_is_found(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    outcome = world.commit(attempt, late_request, between(lambda: world.lake.deliver_late()))
    assert isinstance(outcome, Committed)
    assert outcome.found_done_already
    assert world.rows() == span(0, 0, 10)


def test_a_late_request_does_nothing_to_a_table_that_went_on(world: World) -> None:
    world.commit(write_attempt(world.table, (0, 0, 10)), copied)
    world.other_commits((0, 10, 20))
    assert not world.lake.deliver_late()
    assert world.offsets() == {0: 20, 1: 0}
    assert world.rows() == span(0, 0, 20)


def test_a_late_request_does_nothing_to_a_table_that_went_back(world: World) -> None:
    world.commit(write_attempt(world.table, (0, 0, 10)), late_request)
    world.other_commits((0, 10, 20))
    roll_back(world.others, world.requests[0].parent_id)
    assert not world.lake.deliver_late()
    assert world.rows() == []


def test_an_outcome_that_stays_unknown_is_raised_and_the_attempt_can_be_committed_again(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    with pytest.raises(CommitUnknown, match=attempt.id) as raised:
        world.commit(attempt, *[late_request] * 3, tries=3)
    assert raised.value.retryable
    world.table = world.others.load(NAME)
    outcome = world.commit(attempt)
    assert isinstance(outcome, Committed)
    assert not any(world.lake.deliver_late() for _ in range(3))
    assert world.rows() == span(0, 0, 10)


def test_an_attempt_given_up_may_land_late_and_its_successor_is_superseded(world: World) -> None:
    with pytest.raises(CommitUnknown):
        world.commit(write_attempt(world.table, (0, 0, 10)), late_request, tries=1)
    successor = write_attempt(world.table, (0, 0, 10))
    outcome = world.commit(successor, between(lambda: world.lake.deliver_late()))
    assert isinstance(outcome, Superseded)
    assert world.rows() == span(0, 0, 10)


def refused_by_a_server(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    raise BadRequestError("BadRequestException: no such update")


def refused_in_this_process(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
    raise ValueError("no such update")


@pytest.mark.parametrize("fault", [refused_by_a_server, refused_in_this_process])
def test_a_request_that_the_catalog_can_never_accept_is_not_tried_again(world: World, fault: Fault) -> None:
    with pytest.raises(SnapshotCommit, match=r"Committing to table .*no such update") as raised:
        world.commit(write_attempt(world.table, (0, 0, 10)), fault)
    assert type(raised.value) is SnapshotCommit
    assert not raised.value.retryable
    assert world.rows() == []


def test_a_catalog_that_is_gone_is_unknown_too(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    uri = world.lake.properties["uri"].partition("?")[0].removeprefix("sqlite:///")
    away = Path(uri).with_suffix(".away")

    def lost_with_the_catalog(lake: FaultyLake, deliver: Deliver) -> CommitTableResponse:
        lake.close()
        Path(uri).rename(away)
        Path(uri).mkdir()
        return lost_request(lake, deliver)

    with pytest.raises(CommitUnknown):
        world.commit(attempt, lost_with_the_catalog, tries=3)


def test_what_somebody_else_committed_is_not_committed_again(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.other_commits((0, 0, 15))
    outcome = world.commit(attempt, conflict)
    assert isinstance(outcome, Superseded)
    assert outcome.table.metadata_location == world.others.load(NAME).metadata_location
    assert world.rows() == span(0, 0, 15)


def test_a_part_that_somebody_else_committed_is_clipped(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10), (1, 0, 10))
    world.other_commits((0, 0, 4))
    assert _left(world.commit(attempt, between(lambda: None))) == [(0, 4, 10), (1, 0, 10)]
    world.other_commits((0, 4, 12))
    assert _left(world.commit(attempt, between(lambda: None))) == [(1, 0, 10)]
    assert world.rows() == span(0, 0, 12)


def test_a_compaction_between_is_no_reason_to_write_again(world: World) -> None:
    world.other_commits((0, 0, 3), (1, 0, 3))
    world.table = world.others.load(NAME)
    outcome = world.commit(write_attempt(world.table, (0, 3, 10)), between(lambda: compact(world.others)))
    assert isinstance(outcome, Committed)
    assert len(world.requests) == 2
    assert world.waited == []
    assert world.rows() == span(0, 0, 10) + span(1, 0, 3)
    assert world.offsets() == {0: 10, 1: 3}


def test_a_handle_whose_snapshot_and_files_are_gone_is_no_obstacle(world: World) -> None:
    world.other_commits((0, 0, 3), (1, 0, 3))
    world.table = world.others.load(NAME)
    attempt = write_attempt(world.table, (0, 3, 10))
    compact(world.others)
    expire(world.others)
    assert isinstance(world.commit(attempt), Committed)
    assert world.rows() == span(0, 0, 10) + span(1, 0, 3)


def test_a_snapshot_on_another_branch_is_no_obstacle(world: World) -> None:
    """The snapshot takes a sequence number, so the request must be built again although main has not moved."""
    attempt = write_attempt(world.table, (0, 0, 10))
    other = world.others.load(NAME)
    main = other.metadata.current_snapshot_id
    assert main is not None
    other.manage_snapshots().create_branch(main, "try-out").commit()
    with (
        world.others.load(NAME).transaction() as transaction,
        transaction.update_snapshot(branch="try-out").fast_append(),
    ):
        pass
    assert isinstance(world.commit(attempt), Committed)
    assert world.rows() == span(0, 0, 10)


def test_other_properties_may_change_between(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.others.load(NAME).transaction().set_properties({"owner": "somebody"}).commit_transaction()
    assert isinstance(world.commit(attempt), Committed)
    assert world.others.load(NAME).properties["owner"] == "somebody"


def test_a_changed_schema_is_a_reason_to_write_again(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))

    def evolve() -> None:
        with world.others.load(NAME).update_schema() as update:
            update.add_column("more", StringType())

    outcome = world.commit(attempt, between(evolve))
    assert isinstance(outcome, Rewrite)
    assert "schema 1" in outcome.reason
    assert world.rows() == []


def test_a_changed_partition_spec_is_a_reason_to_write_again(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))

    def respec() -> None:
        with world.others.load(NAME).update_spec() as update:
            update.add_identity("text")

    assert isinstance(world.commit(attempt, between(respec)), Rewrite)
    assert world.rows() == []


def test_an_old_attempt_is_written_again_never_committed_late(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    assert isinstance(world.commit(attempt, now_ms=NOW_MS + 12 * HOUR_MS + 1), Rewrite)
    assert world.requests == []
    assert isinstance(world.commit(attempt, now_ms=NOW_MS + 12 * HOUR_MS), Committed)


def test_a_rolled_back_table_stops_the_commit_and_both_numbers_are_said(world: World) -> None:
    world.other_commits((0, 0, 10))
    before = world.others.load(NAME).metadata.current_snapshot_id
    assert before is not None
    world.other_commits((0, 10, 25))
    world.table = world.others.load(NAME)
    attempt = write_attempt(world.table, (0, 25, 30))
    with pytest.raises(TableRolledBack, match=r"rows up to 10, properties say 25.*resume events --replay") as raised:
        world.commit(attempt, between(lambda: roll_back(world.others, before)))
    assert not raised.value.retryable
    assert world.rows() == span(0, 0, 10)


def test_a_range_after_what_the_table_needs_is_refused(world: World) -> None:
    world.other_commits((0, 0, 10))
    world.table = world.others.load(NAME)
    with pytest.raises(CasConflict, match=r"from offset 10 on, .* begins at 12"):
        world.commit(write_attempt(world.table, (0, 12, 20)))
    assert world.rows() == span(0, 0, 10)


def test_a_partition_the_table_has_not_heard_of_begins_where_its_log_does(world: World) -> None:
    with pytest.raises(CasConflict, match="from offset 0 on"):
        world.commit(write_attempt(world.table, (7, 5, 10)))
    attempt = write_attempt(world.table, (7, 5, 10))
    known = Attempt(**{**vars(attempt), "log_starts": {7: 5}})
    assert isinstance(world.commit(known), Committed)
    assert world.offsets() == {0: 0, 1: 0, 7: 10}


def test_a_table_of_the_same_name_is_another_table(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))

    def replace() -> None:
        world.others.catalog.drop_table(NAME)
        make_table(world.others)

    with pytest.raises(TableReplaced, match=str(attempt.table_uuid)):
        world.commit(attempt, between(replace))
    assert world.rows() == []


def test_a_dropped_table_is_said_to_be_gone(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    with pytest.raises(FrazilError, match=r"frazil\.events") as raised:
        world.commit(attempt, between(lambda: world.others.catalog.drop_table(NAME)))
    assert not raised.value.retryable


def test_a_table_without_a_snapshot_is_not_written_to(world: World) -> None:
    schema = Schema(NestedField(1, "n", IntegerType()))
    bare = world.others.catalog.create_table(("frazil", "bare"), schema, properties={"frazil.topic": "bare"})
    world.table = bare
    attempt = Attempt("20261115T224611123-9f3a7c21", (Range(0, 0, 1, "e"),), (), bare.metadata.table_uuid, 0, 0)
    with pytest.raises(IcebergError, match="has no snapshot"):
        world.commit(attempt)


def test_a_request_is_stored_before_it_is_sent(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    order: list[str] = []

    def stored(request: CommitRequest) -> None:
        assert all(exists(path) for path in metadata_paths(world.table, request.snapshot_id))
        order.append("stored")

    world.lake.faults = [between(lambda: order.append("sent"))]
    commit_add_files(world.lake, world.table, attempt, on_request=stored, clock=lambda: NOW_MS)
    assert order == ["stored", "sent"]


def test_a_request_that_cannot_be_stored_is_not_sent(world: World) -> None:
    def fail(request: CommitRequest) -> None:
        raise WriteFailed("disk full")

    attempt = write_attempt(world.table, (0, 0, 10))
    with pytest.raises(WriteFailed):
        commit_add_files(
            world.lake, world.table, attempt, on_request=fail, clock=lambda: NOW_MS, pause=world.waited.append
        )
    assert world.lake.sent == 0
    assert world.rows() == []


def test_old_metadata_files_go_where_the_table_asks_for_it(world: World) -> None:
    wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "3"}
    world.others.load(NAME).transaction().set_properties(wanted).commit_transaction()
    for start in range(8):
        world.table = world.others.load(NAME)
        world.commit(write_attempt(world.table, (0, start, start + 1)))
    folder = Path(world.table.metadata.location.removeprefix("file://")) / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) <= 5
    assert world.rows() == span(0, 0, 8)


@pytest.mark.parametrize(
    ("place", "done"),
    [("commit.manifests-written", False), ("commit.before-request", False), ("commit.after-request", True)],
)
def test_a_kill_at_any_place_leaves_all_or_nothing(tmp_path: Path, place: str, done: bool) -> None:
    lake = make_lake(tmp_path)
    make_table(lake)
    program = (
        "import sys; from pathlib import Path; from tests.lake.commit import commits as c;"
        "from frazil.lake.commit.commit import commit_add_files;"
        "lake = c.make_lake(Path(sys.argv[1])); table = lake.load(c.NAME);"
        "commit_add_files(lake, table, c.write_attempt(table, (0, 0, 10)), clock=lambda: c.NOW_MS)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env={**os.environ, VARIABLE: place}, check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    assert read_rows(lake) == (span(0, 0, 10) if done else [])
    assert TableState.of(lake.load(NAME)).next_offset(0) == (10 if done else 0)


def _left(outcome: Outcome) -> list[tuple[int, int, int]]:
    assert isinstance(outcome, Clipped)
    return [each[:3] for each in outcome.ranges]
