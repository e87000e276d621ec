"""The transaction log of one pipeline.

Entries after which there may be files (`flush_start`) or a commit request (`commit_start`) are on disk before the
call returns. All others are written at once, and synced along with the next of those.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from frazil.clock import World
from frazil.config.sections.pipeline import TransactionLogConfig
from frazil.config.sections.section import MIB
from frazil.errors import (
    CheckpointFailed,
    FrazilError,
    PartitionLocked,
    ShutdownError,
    TransactionLogBroken,
    TransactionLogDamaged,
)
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.ranges import Range
from frazil.pipeline.txlog.entries import (
    CommitEnd,
    CommitStart,
    Entry,
    FlushEnd,
    FlushStart,
    MaintenanceOp,
    OffsetMarker,
)
from frazil.pipeline.txlog.slot import Slot
from frazil.pipeline.txlog.state import LastCommit, LastOffset, OpenAttempt, State

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The outcome of an open attempt, once it was found out."""

    success: bool
    reason: str
    snapshot_id: int | None = None


class TransactionLog:
    """Writes the entries of one pipeline. Thread-safe. It holds one slot until it is closed or the process ends."""

    def __init__(self, data_dir: Path, config: TransactionLogConfig, world: World, slot: Slot) -> None:
        self.data_dir = data_dir
        self._config = config
        self._world = world
        self._slot = slot
        self._lock = threading.Lock()
        self._closed = False
        self._problem: FrazilError | None = None
        self._checkpointed = 0.0
        self._begin(slot.state)

    @classmethod
    def open(cls, data_dir: Path, config: TransactionLogConfig, world: World | None = None) -> TransactionLog:
        """Take the first free slot. The attempts that its last process left open are open here."""
        world = world or World()
        slot = first_free_slot(data_dir, config, world)
        try:
            return cls(data_dir, config, world, slot)
        except BaseException:
            slot.close()
            raise

    @property
    def slot(self) -> int:
        return self._slot.number

    @property
    def world(self) -> World:
        return self._world

    @property
    def config(self) -> TransactionLogConfig:
        return self._config

    # --- entries ---------------------------------------------------------------------------------------

    def offset_marker(self, topic: str, partition: int, offset: int, record_count: int) -> None:
        self._append(lambda number, ms: OffsetMarker(number, ms, topic, partition, offset, record_count))

    def flush_start(
        self, topic: str, table: str, attempt: str, *, record_count: int, batch_size: int, ranges: Iterable[Range]
    ) -> None:
        """Note that a batch begins, before its first file is written."""
        fixed = tuple(ranges)
        self._append(
            lambda number, ms: FlushStart(number, ms, topic, table, attempt, record_count, batch_size, fixed),
            synced=True,
        )

    def commit_start(self, topic: str, table: str, attempt: str, request: CommitRequest) -> None:
        """Note a commit request, before it is sent."""
        self._append(lambda number, ms: CommitStart(number, ms, topic, table, attempt, *request), synced=True)

    def commit_end(
        self,
        topic: str,
        table: str,
        attempt: str,
        *,
        success: bool,
        snapshot_id: int | None = None,
        reason: str = "",
        retry: bool = False,
    ) -> None:
        """Note the outcome of a commit. With `retry` the attempt stays open: its files are committed again."""
        self._append(
            lambda number, ms: CommitEnd(number, ms, topic, table, attempt, success, snapshot_id, reason, retry)
        )

    def flush_end(self, topic: str, table: str, attempt: str, *, snapshot_id: int | None, files_created: int) -> None:
        self._append(lambda number, ms: FlushEnd(number, ms, topic, table, attempt, snapshot_id, files_created))

    def maintenance_op(self, op_type: str, table: str, details: Mapping[str, Any], topic: str | None = None) -> None:
        self._append(lambda number, ms: MaintenanceOp(number, ms, op_type, table, dict(details), topic))

    def resolve(self, attempt: OpenAttempt, outcome: Outcome) -> None:
        """Close an open attempt when its outcome is known."""
        self.commit_end(
            attempt.topic,
            attempt.table,
            attempt.attempt,
            success=outcome.success,
            snapshot_id=outcome.snapshot_id,
            reason=outcome.reason,
        )

    # --- state -------------------------------------------------------------------------------------------

    def open_attempts(self) -> list[OpenAttempt]:
        """Return the attempts that began and are not known to have ended, in the order of their start."""
        with self._lock:
            return sorted(self._slot.state.attempts.values(), key=lambda each: (each.started_ms, each.attempt))

    def last_commits(self) -> dict[str, LastCommit]:
        """Return the last commit that succeeded, by table."""
        with self._lock:
            return dict(self._slot.state.commits)

    def last_offsets(self) -> dict[tuple[str, int], LastOffset]:
        """Return the last offset marker, by topic and partition."""
        with self._lock:
            return dict(self._slot.state.offsets)

    @property
    def broken(self) -> str | None:
        """The reason why nothing can be written any more, if there is one."""
        return self._slot.broken

    @property
    def problem(self) -> FrazilError | None:
        """The error of the last entry, if it could not be written."""
        return self._problem

    # --- checkpoints -------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Start a new file with a checkpoint."""
        with self._lock:
            self._check_open()
            self._begin(self._slot.state)

    def absorb(self, state: State) -> None:
        """Take over the state of another slot. It is on disk when this returns."""
        with self._lock:
            self._check_open()
            merged = self._slot.state.copy()
            merged.merge(state)
            self._begin(merged)

    def _begin(self, state: State) -> None:
        try:
            self._slot.begin(self._world.clock.now_ms(), state)
        except TransactionLogBroken:
            raise
        except FrazilError as error:
            raise CheckpointFailed(str(error)) from error
        self._checkpointed = self._world.clock.monotonic()

    def _checkpoint_if_due(self) -> None:
        due = (
            self._slot.entries_since_checkpoint >= self._config.checkpoint_interval_entries
            or self._slot.size >= self._config.max_file_size_mb * MIB
            or self._world.clock.monotonic() - self._checkpointed >= self._config.checkpoint_interval_seconds
        )
        if not due:
            return
        try:
            self._begin(self._slot.state)
        except CheckpointFailed as error:
            # The entry before it is stored, so its caller goes on. The next entry tries again.
            logger.warning("no checkpoint of the transaction log", extra={"reason": str(error)})

    # --- writing -----------------------------------------------------------------------------------------

    def _append(self, make: Callable[[int, int], Entry], *, synced: bool = False) -> None:
        try:
            with self._lock:
                self._check_open()
                number = self._slot.next_number
                self._slot.append(make(number, self._world.clock.now_ms()))
                self._checkpoint_if_due()
            if synced:
                self._slot.sync(number)
        except ShutdownError:
            raise
        except FrazilError as error:
            self._problem = error.again()
            raise
        self._problem = None

    def _check_open(self) -> None:
        if self._closed:
            raise ShutdownError(f"The transaction log in {self._slot.folder} is closed.")

    def close(self) -> None:
        """End with a checkpoint. The slot is free for others even when that fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._slot.entries_since_checkpoint:
                    self._begin(self._slot.state)
            finally:
                self._slot.close()

    def __enter__(self) -> TransactionLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def first_free_slot(data_dir: Path, config: TransactionLogConfig, world: World) -> Slot:
    """Take the first slot that no living process holds, so that two pipelines never share a file.

    A damaged slot is left as it is, for people to look at; `recover` raises its error.
    """
    boot = world.boot_id()
    for number in itertools.count():
        try:
            return Slot(data_dir, number, boot, config.max_log_files)
        except (PartitionLocked, TransactionLogDamaged):
            continue
    raise AssertionError("unreachable")
