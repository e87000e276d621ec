"""Commits data files and the offsets they end at, in one atomic update of the table, exactly once.

An update of a catalog has three results: it is done, it is refused, or nobody knows. It may also be done later: a
request can wait in a proxy after its sender has given up. What makes this safe is that every request asserts the
snapshot of main that it was built on, and that every request moves main. So of all requests built on one snapshot, by
whatever process, at most one is ever accepted, and once it is, all others that are still under way will be refused.

- After *any* failure the table is loaded first: `judge` looks for this attempt's id and files, and compares offsets.
  Only the table decides what has happened. The error only decides whether another try makes sense.
- While the table is exactly what a request was built on, the *same* request is sent again, with the same snapshot id
  and manifests. If both copies arrive, the second finds that main has moved.
- When main has moved and the offsets have not (a compaction came between), a new request with a new snapshot id is
  built on the current table. Manifests are never written twice under one name, because readers cache them.
- Nothing is ever deleted here. A file may be deleted when nobody can commit it any more, which `cleanup_attempt`
  decides.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pyiceberg.table import Table

from frazil.backoff import Backoff
from frazil.errors import CommitUnknown, FrazilError, IcebergError, SnapshotCommit
from frazil.failpoints import failpoint
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt
from frazil.lake.commit.offsets import (
    APPLICATION,
    ATTEMPT,
    EPOCH,
    OFFSETS,
    RANGES,
    TASKS,
    TableState,
    name_of,
    offset_properties,
    offsets_to_json,
    ranges_to_json,
)
from frazil.lake.commit.outcomes import Committed, Outcome, judge
from frazil.lake.commit.proposals import CommitRequest, Proposal, propose
from frazil.lake.pyiceberg_internals import delete_old_metadata

Other = TypeVar("Other", covariant=True)
"""What else than `Committed` may have become of a change."""

TRIES = Backoff(base_seconds=0.1, longest_seconds=5.0, max_attempts=5)
"""A commit is tried for about three seconds. The caller waits longer, and has better reasons to give up."""


class Change(Protocol[Other]):
    """What is to be committed, and how its fate is read from the table."""

    @property
    def id(self) -> str:
        """Returns the id of the attempt, which the summary of its snapshot has."""

    def judge(self, table: Table, since: int) -> Committed | Other | None:
        """Returns what has become of the change, or None if it can be committed to the table as it was loaded.

        `since` is the lowest sequence number that its snapshot can have, or 0 if no request was sent yet.
        """

    def propose(self, table: Table) -> Proposal:
        """Writes the manifests of a snapshot on the table as it was loaded."""


def commit_add_files(
    lake: Lake,
    table: Table,
    attempt: Attempt,
    *,
    on_request: Callable[[CommitRequest], None] = lambda _: None,
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    pause: Callable[[float], object] = time.sleep,
    tries: Backoff = TRIES,
    rng: random.Random | None = None,
) -> Outcome:
    """Appends the files and moves the offsets, if the table still needs exactly these ranges.

    `on_request` is called with each new request before it is sent, and must have stored it when it returns: the files
    of an attempt for which it was never called may be deleted at once. After `CommitUnknown` the same attempt may be
    committed again later. Any other error says with `retryable` whether another try makes sense.
    """
    return commit_change(
        lake, table, _Append(attempt, clock), on_request=on_request, pause=pause, tries=tries, rng=rng
    )


def commit_change(
    lake: Lake,
    table: Table,
    change: Change[Other],
    *,
    on_request: Callable[[CommitRequest], None] = lambda _: None,
    pause: Callable[[float], object] = time.sleep,
    tries: Backoff = TRIES,
    rng: random.Random | None = None,
) -> Committed | Other:
    """Commits a change, on the table as it is when the catalog takes it, and returns what has become of it."""
    return _Commit(lake, table, change, on_request, pause, tries, rng or random.Random()).run()


def send(lake: Lake, table: Table, proposal: Proposal) -> Table:
    """Sends a proposal once, and returns the table after it.

    Raises `SnapshotCommit` if the catalog says that it can never accept the proposal.
    """
    doing = f"Committing to table {name_of(table)}"
    try:
        with calling(doing):
            response = lake.catalog.commit_table(table, proposal.requirements, proposal.updates)
    except IcebergError as error:
        if type(error) is not IcebergError:
            raise
        raise SnapshotCommit(str(error)) from error
    except ValueError as error:
        # A catalog in this process raises ValueError where a server answers with status 400. Subclasses have other
        # causes, for example an answer that was cut off.
        if type(error) is not ValueError:
            raise
        raise SnapshotCommit(f"{doing}: {error}") from error
    done = Table(table.name(), response.metadata, response.metadata_location, table.io, table.catalog, table.config)
    delete_old_metadata(lake.catalog, table, done)
    return done


class _Commit(Generic[Other]):
    """One call of `commit_change`."""

    def __init__(
        self,
        lake: Lake,
        table: Table,
        change: Change[Other],
        on_request: Callable[[CommitRequest], None],
        pause: Callable[[float], object],
        tries: Backoff,
        rng: random.Random,
    ) -> None:
        self._lake = lake
        self._table = table
        self._change = change
        self._on_request = on_request
        self._pause = pause
        self._tries = tries
        self._rng = rng
        self._proposal: Proposal | None = None
        self._stored: list[CommitRequest] = []
        self._failures: list[FrazilError] = []

    def run(self) -> Committed | Other:
        while True:
            since = min((request.sequence_number for request in self._stored), default=0)
            outcome = self._change.judge(self._table, since)
            if outcome is not None:
                return outcome
            if len(self._failures) >= self._tries.max_attempts:
                raise self._given_up() from self._failures[-1]
            try:
                return self._try()
            except FrazilError as failure:
                self._look(failure)

    def _try(self) -> Committed:
        if self._proposal is None or not self._proposal.fits(self._table):
            self._proposal = self._change.propose(self._table)
            failpoint("commit.manifests-written")
        request = self._proposal.request
        if request not in self._stored:
            self._on_request(request)
            self._stored.append(request)
        failpoint("commit.before-request")
        table = send(self._lake, self._table, self._proposal)
        failpoint("commit.after-request")
        return Committed(table, request.snapshot_id)

    def _look(self, failure: FrazilError) -> None:
        """Loads the table after a failure. If that fails too, the same request can be sent again without harm."""
        self._failures.append(failure)
        try:
            table = self._lake.load(self._table.name())
        except FrazilError as error:
            if not error.retryable:
                raise
        else:
            changed = table.metadata_location != self._table.metadata_location
            self._table = table
            if changed:
                return
            if not failure.retryable:
                raise failure
        self._pause(self._tries.delay(len(self._failures) - 1, self._rng))

    def _given_up(self) -> FrazilError:
        failure = self._failures[-1]
        if not self._stored:
            return failure
        return CommitUnknown(
            f"table {name_of(self._table)}: {len(self._failures)} tries to commit attempt {self._change.id} have "
            f"failed, and one of them may yet be done. The last: {failure}"
        )


@dataclass(frozen=True)
class _Append:
    """The change of `commit_add_files`."""

    attempt: Attempt
    clock: Callable[[], int]

    @property
    def id(self) -> str:
        return self.attempt.id

    def judge(self, table: Table, since: int) -> Outcome | None:
        return judge(table, self.attempt, self.clock(), since)

    def propose(self, table: Table) -> Proposal:
        attempt = self.attempt
        ends = {each.partition: each.end for each in attempt.ranges}
        summary = {
            **attempt.summary,
            ATTEMPT: attempt.id,
            OFFSETS: offsets_to_json({**TableState.of(table).offsets, **ends}),
            RANGES: ranges_to_json(attempt.ranges),
            APPLICATION: attempt.application,
            TASKS: json.dumps(attempt.tasks, separators=(",", ":")),
        }
        epochs = {f"{EPOCH}{each.partition}": each.epoch for each in attempt.ranges}
        return propose(table, attempt.files, summary, {**offset_properties(ends), **epochs})
