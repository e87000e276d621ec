"""The journal of acknowledgements: one for all subscriptions of a process.

Acknowledgements that come while others are being written are written together, and one sync serves them all. The
journal is not a partition of the log, because it is small, is replaced by every checkpoint, and must never be sealed,
moved or trimmed.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from frazil.clock import World
from frazil.config.sections.log import Sync
from frazil.config.sections.section import MIB
from frazil.errors import FrazilError, ShutdownError
from frazil.failpoints import failpoint
from frazil.framefile import frames
from frazil.topics.subscriptions.ackfile import AckFolder, LaneKey, Lanes, encode_acks, encode_lane
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription_name import SubscriptionName

MAX_FILE_BYTES = 16 * MIB
QUICK = 3 * 1024
"""Up to this many numbers are written by the event loop itself: a thread would cost more than the write."""

logger = logging.getLogger(__name__)


def journal_folder(data_dir: Path) -> Path:
    return data_dir / "subscriptions"


class _Group:
    """Acknowledgements that are written together, and succeed or fail together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.triples: array[int] = array("Q")
        self.lanes: list[tuple[int, LaneKey, Progress]] = []
        self.stored: asyncio.Future[None] = loop.create_future()
        # Asking for the error keeps asyncio from logging it when nobody waits.
        self.stored.add_done_callback(lambda future: future.cancelled() or future.exception())


class Journal:
    """Writes acknowledgements to disk. It belongs to one event loop, and does what may take long in a thread."""

    def __init__(
        self,
        folder: AckFolder,
        *,
        sync: Sync = "periodic",
        sync_interval_seconds: float = 0.1,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._folder = folder
        self._sync = sync
        self._interval = sync_interval_seconds
        self._max_file_bytes = max_file_bytes
        self._rotate_at = max_file_bytes
        self._lanes: dict[LaneKey, Progress] = dict(folder.lanes)
        """The progress of all lanes. Open subscriptions acknowledge in these very objects."""
        self._numbers: dict[LaneKey, int] = {}
        """The numbers of the lanes in the current file."""
        self._next_number = 0
        self._loop = asyncio.get_running_loop()
        self._group = _Group(self._loop)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="frazil-acks")
        self._writing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self._failing = False
        self._closed = False

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        world: World | None = None,
        *,
        sync: Sync = "periodic",
        sync_interval_seconds: float = 0.1,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> Journal:
        """Take the journal of a data folder. Raises `PartitionLocked` when another process has it."""
        boot = (world or World()).boot_id()
        folder = await asyncio.to_thread(AckFolder, journal_folder(data_dir), boot)
        return cls(folder, sync=sync, sync_interval_seconds=sync_interval_seconds, max_file_bytes=max_file_bytes)

    def recovered(self, place: SubscriptionName, generation: str) -> dict[int, Progress]:
        """Return the progress of a subscription that the journal recovered, by partition."""
        return {
            key.partition: progress.copy()
            for key, progress in self._lanes.items()
            if key.place == place and key.generation == generation
        }

    def attach(self, key: LaneKey, progress: Progress) -> None:
        """Register the progress of a lane, in which the caller goes on to acknowledge.

        It must be called again when acknowledgements were taken back, so that the whole progress is written.
        """
        self._lanes[key] = progress
        number = self._numbers[key] = self._next_number
        self._next_number += 1
        self._group.lanes.append((number, key, progress.copy()))

    def detach(self, key: LaneKey, progress: Progress) -> None:
        """Forget a lane whose progress is in a checkpoint. Nothing happens if somebody else has attached it."""
        if self._lanes.get(key) is progress:
            del self._lanes[key]
            self._numbers.pop(key, None)

    def forget(self, place: SubscriptionName, *, but: str | None = None) -> None:
        """Forget a deleted subscription, and former ones of its name, but not the generation `but`."""
        for key in [key for key in self._lanes if key.place == place and key.generation != but]:
            del self._lanes[key]
            self._numbers.pop(key, None)

    def record(self, key: LaneKey, ranges: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        """Write ranges that were just acknowledged in the lane's progress. The future is done when they are stored.

        The future is shared: wait for it with `asyncio.shield`. When it fails, the ranges are stored along with the
        next ones.
        """
        if self._closed:
            raise ShutdownError("The journal of acknowledgements is closed.")
        number, group = self._numbers[key], self._group
        for start, end in ranges:
            group.triples.extend((number, start, end))
        if not self._writing:
            self._writing = True
            self._idle.clear()
            self._loop.call_soon(self._write_next)
        return group.stored

    async def flush(self) -> None:
        """Wait until everything recorded so far was written, or has failed."""
        await self._idle.wait()

    def _write_next(self) -> None:
        group = self._group
        if not group.triples and not group.lanes:
            self._writing = False
            self._idle.set()
            return
        self._group = _Group(self._loop)
        lanes: Lanes | None = None
        if not self._folder.usable or self._folder.size > self._rotate_at:
            lanes = {key: progress.copy() for key, progress in self._lanes.items()}
            self._numbers = {key: number for number, key in enumerate(lanes)}
            self._next_number = len(lanes)
        if lanes is None and self._sync != "always" and len(group.triples) <= QUICK:
            self._finish(group, self._outcome(group, None))
            self._loop.call_soon(self._write_next)
            return
        writing = self._loop.run_in_executor(self._thread, self._outcome, group, lanes)
        writing.add_done_callback(lambda done: self._written(group, done.result()))

    def _outcome(self, group: _Group, lanes: Lanes | None) -> Exception | None:
        try:
            self._write(group, lanes)
        except FrazilError as error:
            return error
        except Exception as error:
            logger.error("a failure that nobody thought of", exc_info=error)
            return error
        return None

    def _write(self, group: _Group, lanes: Lanes | None) -> None:
        """Write a group. With `lanes` a new file begins, whose header contains the group already."""
        failpoint("acks-before-write")
        if lanes is not None:
            self._folder.begin(lanes)
            self._rotate_at = max(self._max_file_bytes, 4 * self._folder.size)
        else:
            encoded: list[frames.Encoded] = [encode_lane(*each) for each in group.lanes]
            if group.triples:
                encoded.append(encode_acks(group.triples, self._folder.synced))
            self._folder.append(encoded)
            failpoint("acks-before-sync")
            if self._sync == "always":
                self._folder.sync()
        failpoint("acks-stored")

    def _written(self, group: _Group, error: Exception | None) -> None:
        self._finish(group, error)
        self._write_next()

    def _finish(self, group: _Group, error: Exception | None) -> None:
        if error is None:
            group.stored.set_result(None)
            self._sync_later()
        else:
            group.stored.set_exception(error)
            if not self._failing:
                logger.error("cannot store acknowledgements", extra={"reason": str(error)})
        self._failing = error is not None

    # --- the timer of `sync: periodic` -------------------------------------------------------------------

    def _sync_later(self) -> None:
        if self._sync == "periodic" and self._timer is None and not self._closed:
            self._timer = self._loop.call_later(self._interval, self._sync_now)

    def _sync_now(self) -> None:
        self._timer = None
        if not self._closed:
            self._loop.run_in_executor(self._thread, self._sync_quietly)

    def _sync_quietly(self) -> None:
        try:
            if self._folder.usable:
                self._folder.sync()
        except FrazilError as error:
            logger.error("cannot sync acknowledgements; they are written anew", extra={"reason": str(error)})

    async def close(self) -> None:
        """Write and sync what is left, and release the folder."""
        if self._closed:
            return
        self._closed = True
        if self._timer:
            self._timer.cancel()
        await self.flush()
        await self._loop.run_in_executor(self._thread, self._close)
        await asyncio.to_thread(self._thread.shutdown)

    def _close(self) -> None:
        try:
            self._sync_quietly()
        finally:
            self._folder.close()
