"""A file of acknowledgements, and the folder it is in.

A file begins with a header that has all that is known; then come acknowledged ranges. So only the newest file
counts. It is complete with its header, on disk, before it gets its name.
"""

from __future__ import annotations

import json
import logging
import os
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from frazil.disk.durable import make_folder, sync_data, sync_file, sync_folder
from frazil.disk.files import DirectoryLock, io_error, move_away, write_all
from frazil.errors import LogBroken, LogCorrupted, LogVersionUnsupported
from frazil.framefile import frames
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription_name import SubscriptionName

SUFFIX = ".acks"

# A range of their own among all kinds of frame.
HEADER, LANE, ACKS = 48, 49, 50

_U64 = struct.Struct("<Q")
_TRIPLE = struct.Struct("<QQQ")

logger = logging.getLogger(__name__)


class LaneKey(NamedTuple):
    """One partition for one subscription."""

    place: SubscriptionName
    generation: str
    partition: int


Lanes = Mapping[LaneKey, Progress]


def encode_header(boot: str, lanes: Lanes) -> frames.Encoded:
    """Its lanes are numbered as they stand here."""
    return _encode_json(HEADER, {"boot": boot, "lanes": [_lane_json(*each) for each in lanes.items()]})


def encode_lane(number: int, key: LaneKey, progress: Progress) -> frames.Encoded:
    """A lane that the file did not know yet, or one whose progress is not what it was and something more."""
    return _encode_json(LANE, {"number": number, **_lane_json(key, progress)})


def encode_acks(triples: array[int], synced_to: int) -> frames.Encoded:
    """Number of a lane, start and end of a range, again and again. `synced_to`: bytes that are surely on disk."""
    return frames.encode(ACKS, [_U64.pack(synced_to), struct.pack(f"<{len(triples)}Q", *triples)])


def _encode_json(kind: int, content: dict[str, Any]) -> frames.Encoded:
    return frames.encode(kind, [json.dumps(content, separators=(",", ":")).encode()], fill=b" ")


def _lane_json(key: LaneKey, progress: Progress) -> dict[str, Any]:
    return {
        "place": list(key.place),
        "generation": key.generation,
        "partition": key.partition,
        "progress": progress.to_json(),
    }


def _lane(data: Any) -> tuple[LaneKey, Progress]:
    key = LaneKey(SubscriptionName(*map(str, data["place"])), str(data["generation"]), int(data["partition"]))
    return key, Progress.from_json(data["progress"])


class Scanned:
    """A file up to its first flaw."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot = ""
        self.lanes: dict[LaneKey, Progress] = {}
        self.clean_bytes = 0
        self.synced_to = 0
        self.flaw: str | None = None
        self.clean_after_flaw = False
        self._numbered: dict[int, Progress] = {}
        view = memoryview(path.read_bytes())
        for frame in frames.scan(view):
            if isinstance(frame, frames.Outcome):
                self._note_flaw(view)
                break
            self._take(view, frame)
        if not self.clean_bytes:
            raise damaged(path, 0, self.flaw or "the file is empty")

    def _take(self, view: memoryview, frame: frames.Frame) -> None:
        frames.check_version(frame, str(self.path))
        body = frame.body(view)
        try:
            if (frame.kind == HEADER) != (frame.start == 0):
                raise ValueError("a header stands at the start of a file, and only there")
            if frame.kind == HEADER:
                content = json.loads(bytes(body))
                self.boot = str(content["boot"])
                self.lanes = dict(map(_lane, content["lanes"]))
                self._numbered = dict(enumerate(self.lanes.values()))
                self.synced_to = frame.end
            elif frame.kind == LANE:
                content = json.loads(bytes(body))
                key, progress = _lane(content)
                self.lanes[key] = self._numbered[int(content["number"])] = progress
            elif frame.kind == ACKS:
                self._acknowledge(body)
            else:
                raise LogVersionUnsupported(
                    f"{self.path}, byte {frame.start}: unknown kind of frame {frame.kind}; a newer version of Frazil "
                    f"wrote it. Run that version."
                )
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(self.path, frame.start, repr(error)) from error
        self.clean_bytes = frame.end

    def _acknowledge(self, body: memoryview) -> None:
        self.synced_to = max(self.synced_to, _U64.unpack_from(body)[0])
        whole = len(body) - _U64.size
        for number, start, end in _TRIPLE.iter_unpack(body[_U64.size : len(body) - whole % _TRIPLE.size]):
            self._numbered[number].acknowledge(start, end)

    def _note_flaw(self, view: memoryview) -> None:
        rest = len(view) - self.clean_bytes
        if rest == 0:
            return
        self.flaw = f"{rest:,} bytes are not a whole frame"
        later = frames.next_clean(view, self.clean_bytes + frames.ALIGN)
        while later is not None:
            self.clean_after_flaw = True
            if later.kind == ACKS:
                self.synced_to = max(self.synced_to, _U64.unpack_from(later.body(view))[0])
            later = frames.next_clean(view, later.end)

    def check(self, boot: str) -> None:
        """Raise unless the flaw is the rest of a write that nobody relies on.

        After a reboot pages that were never synced may be missing in the middle, but none that were.
        """
        lost_unsynced = self.boot != boot and self.clean_bytes >= self.synced_to
        if self.flaw and self.clean_after_flaw and not lost_unsynced:
            raise damaged(self.path, self.clean_bytes, f"{self.flaw}, but whole frames follow")


def damaged(path: Path, byte: int, why: str) -> LogCorrupted:
    return LogCorrupted(
        f"{path} is damaged at byte {byte}: {why}. Move its folder away: subscriptions go on from their checkpoints "
        f"in the store, and what was acknowledged since is delivered again. Run: {move_away(path.parent)}"
    )


class AckFolder:
    """Holds the folder's lock until it is closed. Calls come from one thread at a time, but for `sync`, which may
    come from another than `append`."""

    def __init__(self, folder: Path, boot: str) -> None:
        """Read what is there; `PartitionLocked` when another process has it."""
        self.folder = folder
        self.lanes: dict[LaneKey, Progress] = {}
        """What the newest file knew."""
        self._boot = boot
        self._fd = -1
        self._path = folder
        self._number = 0
        self._position = 0
        self._synced = 0
        self._usable = False
        with _explained("Opening", folder):
            make_folder(folder)
            self._lock = DirectoryLock(folder)
        try:
            with _explained("Reading", folder):
                self._recover()
        except BaseException:
            self._lock.release()
            raise

    def _recover(self) -> None:
        for leftover in self.folder.glob("*.new"):
            leftover.unlink()
        there = _files(self.folder)
        if not there:
            return
        newest = Scanned(there[-1])
        newest.check(self._boot)
        if newest.flaw:
            logger.warning(
                "left out the torn end of a file of acknowledgements",
                extra={"file": str(newest.path), "byte": newest.clean_bytes, "what": newest.flaw},
            )
        self.lanes = newest.lanes
        self._number = int(newest.path.stem)

    @property
    def usable(self) -> bool:
        """Whether `append` can go on; otherwise a file must begin first."""
        return self._usable

    @property
    def size(self) -> int:
        return self._position

    @property
    def synced(self) -> int:
        """Bytes of the file that are surely on disk."""
        return self._synced

    def begin(self, lanes: Lanes) -> None:
        """Start a new file with all that is known, on disk; then the older ones go."""
        self._usable = False
        path = self.folder / f"{self._number + 1:020d}{SUFFIX}"
        draft = path.with_suffix(".new")
        fd = -1
        try:
            fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            position = write_all(fd, encode_header(self._boot, lanes).parts, 0)
            sync_file(fd)
            draft.rename(path)
            sync_folder(self.folder)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise io_error(error, "Starting", path) from error
        finally:
            self._number += 1
        self._release()
        self._fd, self._path = fd, path
        self._position = self._synced = position
        self._usable = True
        self._drop_older()

    def _drop_older(self) -> None:
        for path in _files(self.folder):
            if path < self._path:
                try:
                    path.unlink()
                except OSError as error:
                    logger.warning(
                        "cannot delete an old file of acknowledgements",
                        extra={"file": str(path), "reason": error.strerror},
                    )

    def append(self, encoded: Sequence[frames.Encoded]) -> None:
        """Write frames; after an error nobody knows how much of them is there, and a new file must begin."""
        if not self._usable:
            raise LogBroken(f"{self._path}: writing failed before; a new file must begin.")
        parts = [part for each in encoded for part in each.parts]
        try:
            self._position = write_all(self._fd, parts, self._position)
        except OSError as error:
            self._usable = False
            raise io_error(error, "Appending to", self._path) from error

    def sync(self) -> None:
        """Bring everything written so far to the disk."""
        position = self._position
        if position == self._synced:
            return
        try:
            sync_data(self._fd)
        except OSError as error:
            # What is on disk now only reading tells; a new file does not depend on it.
            self._usable = False
            raise io_error(error, "Syncing", self._path) from error
        self._synced = position

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        self._usable = False
        self._release()
        self._lock.release()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


@contextmanager
def _explained(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise io_error(error, what, path) from error
