"""Tests the same decisions on a real REST catalog, which keeps only the current snapshot, with network faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.types import StringType

from frazil.backoff import Backoff
from frazil.errors import CommitUnknown, TableReplaced
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt
from frazil.lake.commit.cleanup import CleanupResult, OtherCommit, cleanup_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.outcomes import Clipped, Committed, Outcome, Rewrite, Superseded
from frazil.lake.commit.proposals import CommitRequest
from tests.lake.commit.commits import NOW_MS, compact, make_table, read_rows, span, write_attempt
from tests.lake.support import nessie_config
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer, S3Server

COMMIT = "*/tables/events"


class World:
    def __init__(self, lake: Lake, others: Lake, proxy: Proxy, name: tuple[str, str]) -> None:
        self.lake = lake
        self.others = others
        self.proxy = proxy
        self.name = name
        self.table = make_table(others, name=name)
        self.requests: list[CommitRequest] = []

    def commit(self, attempt: Attempt, tries: int = 3) -> Outcome:
        return commit_add_files(
            self.lake,
            self.table,
            attempt,
            on_request=self.requests.append,
            clock=lambda: NOW_MS,
            pause=lambda _: None,
            tries=Backoff(max_attempts=tries),
        )

    def other_commits(self, *ranges: tuple[int, int, int]) -> Attempt:
        table = self.others.load(self.name)
        attempt = write_attempt(table, *ranges)
        assert isinstance(commit_add_files(self.others, table, attempt, clock=lambda: NOW_MS), Committed)
        return attempt

    def offsets(self) -> dict[int, int]:
        return dict(TableState.of(self.others.load(self.name)).offsets)

    def rows(self) -> list[tuple[int, int]]:
        return read_rows(self.others, self.name)


@pytest.fixture
def world(
    tmp_path: Path, nessie: NessieServer, nessie_proxy: Proxy, s3_server: S3Server, namespace: str
) -> Iterator[World]:
    lake = Lake(
        nessie_config(tmp_path, nessie, s3_server, namespace, endpoint=nessie_proxy.endpoint, timeout_seconds=2)
    )
    others = Lake(nessie_config(tmp_path, nessie, s3_server, namespace))
    yield World(lake, others, nessie_proxy, (namespace, "events"))
    lake.close()
    others.close()


def test_rows_and_offsets_move_together(world: World) -> None:
    for start in (0, 10):
        world.table = world.others.load(world.name)
        outcome = world.commit(write_attempt(world.table, (0, start, start + 10), (1, start, start + 10)))
        assert isinstance(outcome, Committed)
        assert outcome.snapshot_id == world.requests[-1].snapshot_id
        assert outcome.table.metadata.current_snapshot_id == outcome.snapshot_id
    assert world.rows() == span(0, 0, 20) + span(1, 0, 20)
    assert world.offsets() == {0: 20, 1: 20}


def test_an_empty_range_moves_the_offsets(world: World) -> None:
    world.other_commits((0, 0, 5))
    world.table = world.others.load(world.name)
    assert isinstance(world.commit(write_attempt(world.table, (0, 5, 9), empty=True)), Committed)
    assert world.offsets() == {0: 9, 1: 0}
    assert world.rows() == span(0, 0, 5)


@pytest.mark.parametrize("fault", ["500", "503", "no reply", "half a reply", "409"])
def test_a_request_that_was_done_though_it_seemed_to_fail_is_found(world: World, fault: str) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    rule = world.proxy.on("POST", COMMIT)
    match fault:
        case "no reply":
            rule.drop_reply(times=1)
        case "half a reply":
            rule.cut_reply(times=1)
        case _:
            rule.replace_reply(int(fault), times=1)
    outcome = world.commit(attempt)
    assert isinstance(outcome, Committed)
    assert outcome.found_done_already
    assert outcome.snapshot_id == world.requests[0].snapshot_id
    assert world.rows() == span(0, 0, 10)


def test_a_request_that_was_done_is_found_by_its_files_when_others_have_committed_since(world: World) -> None:
    """This catalog forgets every snapshot but the current one."""
    attempt = write_attempt(world.table, (0, 0, 10))
    world.proxy.on("POST", COMMIT).drop_reply()
    world.proxy.on("GET", COMMIT).drop_request()
    with pytest.raises(CommitUnknown):
        world.commit(attempt, tries=1)
    world.proxy.clear()
    world.other_commits((0, 10, 20))
    assert len(world.others.load(world.name).snapshots()) == 1
    world.table = world.others.load(world.name)
    outcome = world.commit(attempt)
    assert isinstance(outcome, Committed)
    assert outcome.snapshot_id == world.requests[0].snapshot_id
    assert world.rows() == span(0, 0, 20)


@pytest.mark.parametrize("status", [409, 429, 500, 502, 503, 504])
def test_a_request_that_was_not_done_is_sent_again(world: World, status: int) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.proxy.on("POST", COMMIT).answer(status, times=2)
    outcome = world.commit(attempt)
    assert isinstance(outcome, Committed)
    assert not outcome.found_done_already
    assert len(world.requests) == 1
    assert world.rows() == span(0, 0, 10)


def test_a_server_that_answers_too_late_is_asked_what_became_of_it(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.proxy.on("POST", COMMIT).delay_reply(60, times=1)
    outcome = world.commit(attempt)
    assert isinstance(outcome, Committed)
    assert outcome.found_done_already
    assert world.rows() == span(0, 0, 10)


def test_a_request_delivered_after_recovery_does_nothing(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    kept = world.proxy.on("POST", COMMIT).keep_request()
    with pytest.raises(CommitUnknown):
        world.commit(attempt, tries=1)
    world.proxy.clear()
    requests = list(world.requests)
    assert clean(world, attempt, requests).kept == "a request to commit it may still be accepted"
    successor = world.other_commits((0, 0, 7))
    assert clean(world, attempt, requests, successor) == CleanupResult(3)
    assert b" 409 " in kept[0].forward().split(b"\r\n")[0]
    assert world.offsets() == {0: 7, 1: 0}
    assert world.rows() == span(0, 0, 7)


def test_a_request_delivered_before_the_successor_supersedes_it(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    kept = world.proxy.on("POST", COMMIT).keep_request(times=1)
    with pytest.raises(CommitUnknown):
        world.commit(attempt, tries=1)
    requests, successor = list(world.requests), write_attempt(world.table, (0, 0, 10))
    assert b" 200 " in kept[0].forward().split(b"\r\n")[0]
    world.requests.clear()
    assert isinstance(world.commit(successor), Superseded)
    assert world.rows() == span(0, 0, 10)
    assert clean(world, attempt, requests).kept == "it is in the table"
    assert clean(world, successor, world.requests) == CleanupResult(3)
    assert world.rows() == span(0, 0, 10)


def test_a_part_that_somebody_else_committed_is_clipped(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10), (1, 0, 10))
    world.other_commits((0, 0, 4))
    outcome = world.commit(attempt)
    assert isinstance(outcome, Clipped)
    assert [each[:3] for each in outcome.ranges] == [(0, 4, 10), (1, 0, 10)]
    assert world.rows() == span(0, 0, 4)


def test_a_compaction_between_is_no_reason_to_write_again(world: World) -> None:
    world.other_commits((0, 0, 3), (1, 0, 3))
    world.table = world.others.load(world.name)
    attempt = write_attempt(world.table, (0, 3, 10))
    compact(world.others, world.name)
    assert isinstance(world.commit(attempt), Committed)
    assert len(world.requests) == 2
    assert world.rows() == span(0, 0, 10) + span(1, 0, 3)


def test_a_changed_schema_or_partition_spec_is_a_reason_to_write_again(world: World) -> None:
    stale = world.table
    with world.others.load(world.name).update_schema() as update:
        update.add_column("more", StringType())
    assert isinstance(world.commit(write_attempt(stale, (0, 0, 10))), Rewrite)
    assert world.rows() == []
    world.table = stale = world.others.load(world.name)
    with world.others.load(world.name).update_spec() as spec:
        spec.add_identity("text")
    assert isinstance(world.commit(write_attempt(stale, (0, 0, 10))), Rewrite)
    assert world.rows() == []


def test_a_table_of_the_same_name_is_another_table(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.others.catalog.drop_table(world.name)
    make_table(world.others, name=world.name)
    with pytest.raises(TableReplaced):
        world.commit(attempt)
    assert world.rows() == []


def test_a_catalog_that_is_down_and_comes_back_is_waited_for(world: World) -> None:
    attempt = write_attempt(world.table, (0, 0, 10))
    world.proxy.down()
    with pytest.raises(CommitUnknown) as raised:
        world.commit(attempt)
    assert raised.value.retryable
    world.proxy.up()
    assert isinstance(world.commit(attempt), Committed)
    assert world.rows() == span(0, 0, 10)


def clean(world: World, attempt: Attempt, requests: list[CommitRequest], *done: Attempt) -> CleanupResult:
    return cleanup_attempt(
        world.others,
        world.table,
        attempt.id,
        attempt.ranges,
        requests,
        [OtherCommit(each.id, each.ranges) for each in done],
    )
