"""Tests several movers, some of them zombies, on one table, with all concurrent changes that can happen.

After every step an independent reader checks: each offset below the committed one is in the table exactly once, none
above it is in the table, and every file that any snapshot refers to exists.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyiceberg.table import Table
from pyiceberg.types import StringType

from frazil.backoff import Backoff
from frazil.errors import CasConflict, CommitUnknown, TableRolledBack
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import Attempt, attempt_time_ms
from frazil.lake.commit.cleanup import OtherCommit, cleanup_attempt
from frazil.lake.commit.commit import commit_add_files
from frazil.lake.commit.offsets import ATTEMPT, OFFSETS, TableState, snapshot_offsets, summary_of
from frazil.lake.commit.outcomes import Clipped, Committed, Rewrite, Superseded
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.ranges import Range
from frazil.lake.commit.replace import Replacement, commit_replacement
from frazil.pipeline.decisions.rollback import accept_table_state, replay_table
from tests.examples import examples
from tests.lake.commit.commits import (
    NAME,
    NOW_MS,
    Fault,
    FaultyLake,
    between,
    compact,
    conflict,
    copied,
    drop_file,
    exists,
    expire,
    failed_server,
    failed_server_done,
    late_request,
    live_files,
    lost_reply,
    lost_request,
    make_lake,
    make_table,
    read_rows,
    roll_back,
    sent_twice,
    write_attempt,
    write_replacement,
)

HOUR_MS = 3_600_000
PARTITIONS = 2
MOVERS = st.integers(0, 2)
COMPACTORS = st.integers(0, 1)
COUNTS = st.integers(1, 4)
PLAIN_FAULTS: dict[str, Fault] = {
    "lost request": lost_request,
    "lost reply": lost_reply,
    "late": late_request,
    "copied": copied,
    "twice": sent_twice,
    "conflict": conflict,
    "server": failed_server,
    "server, done": failed_server_done,
}
FAULTS = st.lists(
    st.sampled_from([*PLAIN_FAULTS, "compaction", "expiry", "schema", "other mover", "late one arrives"]), max_size=3
)


@dataclass
class Written:
    """What a mover's transaction log has about an attempt."""

    attempt: Attempt
    requests: list[CommitRequest] = field(default_factory=list)
    done_after: int = 0
    """How many commits of the mover had succeeded when the attempt was given up or last sent."""


class Mover:
    def __init__(self, lake: FaultyLake, rng: random.Random) -> None:
        self.lake = lake
        self.rng = rng
        self.table: Table = lake.load(NAME)
        self.current: Written | None = None
        self.given_up: list[Written] = []
        self.done: list[OtherCommit] = []

    def write(self, counts: list[int], now_ms: int, empty: bool) -> None:
        """Writes the next rows by what this mover knows of the table, which may be long out of date."""
        self.give_up()
        state = TableState.of(self.table)
        starts = {partition: state.next_offset(partition) or 0 for partition in range(PARTITIONS)}
        ranges = [(at, starts[at], starts[at] + count) for at, count in enumerate(counts) if count]
        if ranges:
            self.current = Written(write_attempt(self.table, *ranges, rng=self.rng, now_ms=now_ms, empty=empty))

    def write_rest(self, ranges: tuple[Range, ...], now_ms: int) -> None:
        self.give_up()
        self.current = Written(write_attempt(self.table, *(each[:3] for each in ranges), rng=self.rng, now_ms=now_ms))

    def commit(self, now_ms: int) -> str:
        written = self.current
        assert written is not None
        written.done_after = len(self.done)
        try:
            outcome = commit_add_files(
                self.lake,
                self.table,
                written.attempt,
                on_request=written.requests.append,
                clock=lambda: now_ms,
                pause=lambda _: None,
                tries=Backoff(max_attempts=3),
                rng=self.rng,
            )
        except CommitUnknown:
            self.table = self.lake.load(NAME)
            return "unknown"
        except (CasConflict, TableRolledBack) as error:
            self.give_up()
            self.table = self.lake.load(NAME)
            return type(error).__name__
        self.table = outcome.table
        match outcome:
            case Committed():
                self.done.append(OtherCommit(written.attempt.id, written.attempt.ranges))
                self.current = None
            case Superseded():
                self.give_up()
            case Clipped():
                self.write_rest(outcome.ranges, now_ms)
            case Rewrite():
                self.write_rest(written.attempt.ranges, now_ms)
        return type(outcome).__name__

    def give_up(self) -> None:
        if self.current is not None:
            self.given_up.append(self.current)
            self.current = None

    def clean(self) -> None:
        for written in list(self.given_up):
            cleaned = cleanup_attempt(
                self.lake,
                self.table,
                written.attempt.id,
                written.attempt.ranges,
                written.requests,
                self.done[written.done_after :],
            )
            if cleaned.kept is None:
                self.given_up.remove(written)


class Commits(RuleBasedStateMachine):
    went_back = False
    """Whether the table waits for a person's decision after the last step."""

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="frazil-commits-"))
        self.others: Lake = make_lake(self.folder, synced=False)
        make_table(self.others)
        self.lakes = [FaultyLake(self.others.config) for _ in range(3)]
        self.movers = [Mover(lake, random.Random(seed + at)) for at, lake in enumerate(self.lakes)]
        self.compactors = [FaultyLake(self.others.config) for _ in range(2)]
        self.merged: dict[int, Replacement | None] = {}
        self.rng = random.Random(f"compactors {seed}")
        self.now_ms = NOW_MS
        self.columns = 0
        self.dropped: set[tuple[int, int]] = set()
        """The rows that a mover left out on purpose, or that a person gave up."""
        self.empty: dict[str, set[tuple[int, int]]] = {}
        """The rows that each attempt without files would leave out."""

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    # --- movers -------------------------------------------------------------------------------------------

    @rule(
        mover=MOVERS,
        counts=st.lists(st.integers(0, 4), min_size=PARTITIONS, max_size=PARTITIONS),
        empty=st.booleans(),
    )
    def write(self, mover: int, counts: list[int], empty: bool) -> None:
        who = self.movers[mover]
        who.write(counts, self.now_ms, empty and sum(counts) < 3)
        if who.current is not None and not who.current.attempt.files:
            attempt = who.current.attempt
            self.empty[attempt.id] = {(at[0], each) for at in attempt.ranges for each in range(at.start, at.end)}

    @precondition(lambda self: any(mover.current for mover in self.movers))
    @rule(mover=MOVERS, faults=FAULTS)
    def commit_again(self, mover: int, faults: list[str]) -> None:
        """Commits what is written, or was sent with an unknown outcome."""
        waiting = [at for at, each in enumerate(self.movers) if each.current]
        self.commit(waiting[mover % len(waiting)], faults)

    def commit(self, mover: int, faults: list[str]) -> None:
        who = self.movers[mover]
        if who.current is not None:
            who.lake.faults = [self.fault(mover, name) for name in faults]
            who.commit(self.now_ms)
            who.lake.faults = []

    @rule(mover=MOVERS, count=COUNTS, faults=FAULTS)
    def move(self, mover: int, count: int, faults: list[str]) -> None:
        """Loads, writes and commits. This is the usual case, so that tables make progress."""
        self.look(mover)
        self.write(mover, [count] * PARTITIONS, empty=False)
        self.commit(mover, faults)

    @rule(mover=MOVERS, counts=st.tuples(COUNTS, COUNTS), faults=st.tuples(FAULTS, FAULTS))
    def race(self, mover: int, counts: tuple[int, int], faults: tuple[list[str], list[str]]) -> None:
        """Two movers write the same rows before either commits."""
        pair = (mover, (mover + 1) % len(self.movers))
        for who, count in zip(pair, counts, strict=True):
            self.look(who)
            self.write(who, [count] * PARTITIONS, empty=False)
        for who, each in zip(pair, faults, strict=True):
            self.commit(who, each)

    @rule(mover=MOVERS, count=COUNTS, faults=FAULTS)
    def move_blindly(self, mover: int, count: int, faults: list[str]) -> None:
        """Writes and commits by what this mover saw last."""
        self.write(mover, [count, 0], empty=False)
        self.commit(mover, faults)

    @rule(mover=MOVERS, counts=st.tuples(COUNTS, COUNTS), arrives=st.sampled_from(["before", "between", "after"]))
    def lose_and_go_on(self, mover: int, counts: tuple[int, int], arrives: str) -> None:
        """A commit stays unknown while its request is under way, and the mover starts again with other files."""
        self.look(mover)
        self.write(mover, [counts[0]] * PARTITIONS, empty=False)
        self.commit(mover, ["late", "lost request", "lost request"])
        self.restart(mover)
        self.write(mover, [counts[1]] * PARTITIONS, empty=False)
        self.movers[mover].clean()
        under_way = self.movers[mover].lake
        if under_way.late and arrives == "before":
            under_way.deliver_late()
        self.commit(mover, ["late one arrives"] if arrives == "between" else [])
        self.movers[mover].clean()

    def fault(self, mover: int, name: str) -> Fault:
        actions: dict[str, Any] = {
            "compaction": self.compact,
            "expiry": self.expire,
            "schema": self.change_schema,
            "other mover": lambda: self.move((mover + 1) % len(self.movers), 2, []),
            "late one arrives": lambda: self.deliver_late(0),
        }
        return PLAIN_FAULTS[name] if name in PLAIN_FAULTS else between(actions[name])

    def look(self, mover: int) -> None:
        who = self.movers[mover]
        who.table = who.lake.load(NAME)

    @precondition(lambda self: any(mover.current for mover in self.movers))
    @rule(mover=MOVERS)
    def restart(self, mover: int) -> None:
        """Restarts a mover, which then knows only its transaction log."""
        who = self.movers[mover]
        who.give_up()
        who.table = who.lake.load(NAME)

    @precondition(lambda self: any(mover.given_up for mover in self.movers))
    @rule()
    def clean(self) -> None:
        for mover in self.movers:
            mover.clean()

    # --- compaction ---------------------------------------------------------------------------------------

    @rule(which=COMPACTORS, count=st.integers(2, 4))
    def merge(self, which: int, count: int) -> None:
        """Writes the rows of some files anew. What was written before and not committed is left to orphan removal."""
        table = self.compactors[which].load(NAME)
        self.merged[which] = write_replacement(table, count, self.rng, self.now_ms)

    @precondition(lambda self: any(self.merged.values()))
    @rule(which=COMPACTORS, faults=FAULTS)
    def commit_merged(self, which: int, faults: list[str]) -> None:
        """Commits what was merged a while ago. It may have been sent before, with an unknown outcome."""
        replacement, lake = self.merged.get(which), self.compactors[which]
        if replacement is None:
            return
        lake.faults = [self.fault(which, name) for name in faults]
        try:
            commit_replacement(
                lake,
                lake.load(NAME),
                replacement,
                clock=lambda: self.now_ms,
                pause=lambda _: None,
                tries=Backoff(max_attempts=3),
                rng=self.rng,
            )
        except (CommitUnknown, CasConflict, TableRolledBack):
            pass
        else:
            self.merged[which] = None
        finally:
            lake.faults = []

    @rule(which=COMPACTORS, count=st.integers(2, 4), faults=FAULTS)
    def compact_whole(self, which: int, count: int, faults: list[str]) -> None:
        self.merge(which, count)
        self.commit_merged(which, faults)

    @precondition(lambda self: not self.went_back)
    @rule(which=st.integers(0, 20))
    def retain(self, which: int) -> None:
        """Drops a file with all its rows, as retention does."""
        self.dropped |= set(drop_file(self.others, which))

    # --- other changes ------------------------------------------------------------------------------------

    @precondition(lambda self: any(lake.late for lake in (*self.lakes, *self.compactors)))
    @rule(which=st.integers(0, 20))
    def deliver_late(self, which: int) -> None:
        under_way = [lake for lake in (*self.lakes, *self.compactors) if lake.late]
        if under_way:
            under_way[which % len(under_way)].deliver_late()

    @rule()
    def compact(self) -> None:
        compact(self.others)

    @precondition(lambda self: not self.went_back)
    @rule(keep=st.integers(1, 3))
    def expire(self, keep: int = 1) -> None:
        expire(self.others, keep=keep)

    @precondition(lambda self: self.columns < 2)
    @rule()
    def change_schema(self) -> None:
        if self.columns < 2:
            self.columns += 1
            with self.others.load(NAME).update_schema() as update:
                update.add_column(f"more_{self.columns}", StringType())

    @rule(hours=st.sampled_from([1, 13, 30]))
    def time_passes(self, hours: int) -> None:
        self.now_ms += hours * HOUR_MS

    @rule()
    def remove_orphans(self) -> None:
        """Deletes files older than a day that no snapshot refers to, whoever wrote them."""
        table = self.others.load(NAME)
        live = {path for each in table.snapshots() for path in live_files(table, each.snapshot_id)}
        data = Path(table.metadata.location.removeprefix("file://")) / "data"
        for path in data.glob("*-*/*.parquet"):
            old = attempt_time_ms(path.parent.name) < self.now_ms - 24 * HOUR_MS
            if old and f"file://{path}" not in live:
                path.unlink()

    # --- decisions of a person ----------------------------------------------------------------------------

    @precondition(lambda self: not self.went_back)
    @rule(back=st.integers(1, 3), mover=MOVERS, decision=st.sampled_from(["replay", "accept", "later"]))
    def roll_back(self, back: int, mover: int, decision: str) -> None:
        """Rolls back to a snapshot that has offsets. Without any such snapshot nobody could detect the rollback."""
        table = self.others.load(NAME)
        line = [each for each in table.snapshots() if OFFSETS in summary_of(each)]
        if len(line) <= back:
            return
        roll_back(self.others, line[-1 - back].snapshot_id)
        self.deliver_late(mover)
        if self.rolled_back():
            who = self.movers[mover]
            self.look(mover)
            who.write([1] * PARTITIONS, self.now_ms, empty=False)
            assert who.commit(self.now_ms) == "TableRolledBack"
            self.every_row_is_there_once()
            if decision != "later":
                self.decide(decision == "replay")

    @precondition(lambda self: self.went_back)
    @rule(replay=st.booleans())
    def decide(self, replay: bool) -> None:
        table = self.others.load(NAME)
        if replay:
            replay_table(self.others, table, {})
        else:
            rows, offsets = snapshot_offsets(table) or {}, TableState.of(table).offsets
            self.dropped |= {(at, each) for at, end in offsets.items() for each in range(rows.get(at, 0), end)}
            accept_table_state(self.others, table)
        assert not self.rolled_back()

    def rolled_back(self) -> bool:
        table = self.others.load(NAME)
        rows = snapshot_offsets(table)
        return rows is not None and rows != dict(TableState.of(table).offsets)

    # --- invariants ---------------------------------------------------------------------------------------

    @invariant()
    def every_row_is_there_once(self) -> None:
        if not hasattr(self, "others"):
            return
        table = self.others.load(NAME)
        for snapshot in table.snapshots():
            gone = [path for path in live_files(table, snapshot.snapshot_id) if not exists(path)]
            assert not gone, f"snapshot {snapshot.snapshot_id} refers to files that are gone: {gone}"
        offsets = snapshot_offsets(table) or TableState.of(table).offsets
        rows = read_rows(self.others)
        assert len(rows) == len(set(rows)), f"rows twice: {sorted(row for row in set(rows) if rows.count(row) > 1)}"
        due = {(at, each) for at, end in offsets.items() for each in range(end)}
        assert set(rows) <= due, f"rows above the offsets {dict(offsets)}: {sorted(set(rows) - due)}"
        missing = due - set(rows) - self.left_out(table)
        assert not missing, f"rows missing below {dict(offsets)}: {sorted(missing)}"
        self.went_back = offsets != TableState.of(table).offsets

    def left_out(self, table: Table) -> set[tuple[int, int]]:
        """Returns what empty attempts on main left out. It is remembered, because their snapshots expire."""
        for snapshot in table.snapshots():
            self.dropped |= self.empty.get(summary_of(snapshot).get(ATTEMPT, ""), set())
        return self.dropped


QUICK = settings(
    max_examples=examples(10),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
LONG = settings(QUICK, max_examples=400, stateful_step_count=50, derandomize=False, print_blob=True)


def test_every_row_is_in_the_table_exactly_once() -> None:
    run_state_machine_as_test(Commits, settings=QUICK)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_row_is_in_the_table_exactly_once_for_long() -> None:
    run_state_machine_as_test(Commits, settings=LONG)
