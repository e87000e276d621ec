"""The state of the transaction log after all its entries: what recovery needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.ranges import Range
from frazil.pipeline.txlog.entries import (
    Checkpoint,
    CommitEnd,
    CommitStart,
    Entry,
    FlushEnd,
    FlushStart,
    OffsetMarker,
)

Key = tuple[str, str]
"""Table and attempt. One attempt may write to several tables."""


@dataclass(frozen=True)
class OpenAttempt:
    """A batch that began and is not known to have ended: its files may be there, and may be in the table."""

    topic: str
    table: str
    attempt: str
    ranges: tuple[Range, ...]
    started_ms: int
    requests: tuple[CommitRequest, ...] = ()
    """The commit requests that may have been sent: each may have succeeded, or may still do so."""

    @property
    def key(self) -> Key:
        return self.table, self.attempt


@dataclass(frozen=True)
class LastCommit:
    """The last commit to a table that succeeded."""

    topic: str
    table: str
    attempt: str
    snapshot_id: int | None
    ranges: tuple[Range, ...]
    time_ms: int


@dataclass(frozen=True)
class LastOffset:
    offset: int
    time_ms: int


@dataclass
class State:
    """Open attempts, last commits and last offsets. Its size does not depend on the length of the log."""

    attempts: dict[Key, OpenAttempt] = field(default_factory=dict)
    commits: dict[str, LastCommit] = field(default_factory=dict)
    offsets: dict[tuple[str, int], LastOffset] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.attempts or self.commits or self.offsets)

    def apply(self, entry: Entry) -> None:
        match entry:
            case OffsetMarker():
                self.offsets[entry.topic, entry.partition] = LastOffset(entry.offset, entry.time_ms)
            case FlushStart():
                self.attempts[entry.table, entry.attempt] = OpenAttempt(
                    entry.topic, entry.table, entry.attempt, entry.ranges, entry.time_ms
                )
            case CommitStart():
                known = self._attempt(entry)
                request = CommitRequest(entry.snapshot_id, entry.parent_snapshot_id, entry.sequence_number)
                self.attempts[known.key] = replace(known, requests=(*known.requests, request))
            case CommitEnd(success=True):
                known = self._attempt(entry)
                self.commits[entry.table] = LastCommit(
                    entry.topic, entry.table, entry.attempt, entry.snapshot_id, known.ranges, entry.time_ms
                )
                self.attempts.pop(known.key, None)
            case CommitEnd(retry=False) | FlushEnd():
                self.attempts.pop((entry.table, entry.attempt), None)
            case Checkpoint():
                there = State.from_json(entry.state)
                self.attempts, self.commits, self.offsets = there.attempts, there.commits, there.offsets

    def _attempt(self, entry: CommitStart | CommitEnd) -> OpenAttempt:
        """Return the attempt of a commit. A commit that only changes offsets has no flush before it."""
        known = self.attempts.get((entry.table, entry.attempt))
        return known or OpenAttempt(entry.topic, entry.table, entry.attempt, (), entry.time_ms)

    def merge(self, other: State) -> None:
        """Add the state of another slot. Where both have an entry, the newer one counts."""
        self.attempts = other.attempts | self.attempts
        for table, commit in other.commits.items():
            if table not in self.commits or self.commits[table].time_ms < commit.time_ms:
                self.commits[table] = commit
        for key, last in other.offsets.items():
            if key not in self.offsets or self.offsets[key].time_ms < last.time_ms:
                self.offsets[key] = last

    def copy(self) -> State:
        return State(dict(self.attempts), dict(self.commits), dict(self.offsets))

    def to_json(self) -> dict[str, Any]:
        return {
            "attempts": [asdict(each) for each in self.attempts.values()],
            "commits": [asdict(each) for each in self.commits.values()],
            "offsets": [[*key, last.offset, last.time_ms] for key, last in self.offsets.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> State:
        attempts = [
            OpenAttempt(**{**each, "ranges": _ranges(each["ranges"]), "requests": _requests(each["requests"])})
            for each in data["attempts"]
        ]
        commits = [LastCommit(**{**each, "ranges": _ranges(each["ranges"])}) for each in data["commits"]]
        return cls(
            {each.key: each for each in attempts},
            {each.table: each for each in commits},
            {(topic, partition): LastOffset(offset, ms) for topic, partition, offset, ms in data["offsets"]},
        )


def _ranges(data: Iterable[Iterable[Any]]) -> tuple[Range, ...]:
    return tuple(Range(*each) for each in data)


def _requests(data: Iterable[Iterable[Any]]) -> tuple[CommitRequest, ...]:
    return tuple(CommitRequest(*each) for each in data)
