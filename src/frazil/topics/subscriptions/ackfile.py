"""Files of acknowledgements, and the folder they are in.

A file begins with a header that has the progress of all subscriptions; then come acknowledged ranges. So only the
newest file counts. It is complete with its header, on disk, before it gets its name.
"""

from __future__ import annotations

import json
import logging
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from frazil.disk.files import explained, move_away
from frazil.errors import FrazilError, LogBroken, LogCorrupted, LogVersionUnsupported
from frazil.framefile import frames
from frazil.framefile.folder import file_path, locked, numbered_files, read_newest
from frazil.framefile.scan import ScannedFile
from frazil.framefile.writer import FrameWriter
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription_name import SubscriptionName

SUFFIX = ".acks"

# The kinds differ from those of all other logs.
HEADER, LANE, ACKS = 48, 49, 50

_U64 = struct.Struct("<Q")
_TRIPLE = struct.Struct("<QQQ")

logger = logging.getLogger(__name__)


class LaneKey(NamedTuple):
    """One partition of one subscription."""

    place: SubscriptionName
    generation: str
    partition: int


Lanes = Mapping[LaneKey, Progress]


def encode_header(boot: str, lanes: Lanes) -> frames.Encoded:
    """Encode a header. Its lanes are numbered in this order."""
    return _encode_json(HEADER, {"boot": boot, "lanes": [_lane_json(*each) for each in lanes.items()]})


def encode_lane(number: int, key: LaneKey, progress: Progress) -> frames.Encoded:
    """Encode a lane that is new to the file, or whose progress was changed by more than acknowledgements."""
    return _encode_json(LANE, {"number": number, **_lane_json(key, progress)})


def encode_acks(triples: array[int], synced_to: int) -> frames.Encoded:
    """Encode acknowledged ranges: the number of a lane, start and end, for each. `synced_to` bytes are on disk."""
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


class ScannedAcks(ScannedFile):
    """A file, read up to its first flaw."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.lanes: dict[LaneKey, Progress] = {}
        self._numbered: dict[int, Progress] = {}
        self._scan(memoryview(path.read_bytes()))

    def _read_frame(self, view: memoryview, frame: frames.Frame) -> int:
        body = frame.body(view)
        try:
            if (frame.kind == HEADER) != (frame.start == 0):
                raise ValueError("a header stands at the start of a file, and only there")
            if frame.kind == HEADER:
                content = json.loads(bytes(body))
                self.boot = str(content["boot"])
                self.lanes = dict(map(_lane, content["lanes"]))
                self._numbered = dict(enumerate(self.lanes.values()))
                return frame.end
            if frame.kind == LANE:
                content = json.loads(bytes(body))
                key, progress = _lane(content)
                self.lanes[key] = self._numbered[int(content["number"])] = progress
                return 0
            if frame.kind == ACKS:
                return self._acknowledge(body)
        except (ValueError, KeyError, TypeError) as error:
            raise self.damaged(frame.start, repr(error)) from error
        raise LogVersionUnsupported(
            f"{self.path}, byte {frame.start}: unknown kind of frame {frame.kind}; a newer version of Frazil wrote "
            f"it. Run that version."
        )

    def _acknowledge(self, body: memoryview) -> int:
        whole = len(body) - _U64.size
        for number, start, end in _TRIPLE.iter_unpack(body[_U64.size : len(body) - whole % _TRIPLE.size]):
            self._numbered[number].acknowledge(start, end)
        return _synced_to(body)

    def _read_frame_after_flaw(self, view: memoryview, frame: frames.Frame) -> int:
        return _synced_to(frame.body(view)) if frame.kind == ACKS else 0

    def _describe_flaw(self, rest: memoryview) -> str:
        return f"{len(rest):,} bytes are not a whole frame"

    def damaged(self, byte: int, why: str) -> LogCorrupted:
        return LogCorrupted(
            f"{self.path} is damaged at byte {byte}: {why}. Move its folder away: subscriptions go on from their "
            f"checkpoints in the store, and what was acknowledged since is delivered again. "
            f"Run: {move_away(self.path.parent)}"
        )


def _synced_to(acks: memoryview) -> int:
    return int(_U64.unpack_from(acks)[0])


class AckFolder:
    """The folder of the journal. It holds the folder's lock until it is closed.

    Calls come from one thread at a time, except that `sync` may run beside `append`.
    """

    def __init__(self, folder: Path, boot: str) -> None:
        """Lock the folder and read the newest file. Raises `PartitionLocked` when another process has it."""
        self.folder = folder
        self.lanes: dict[LaneKey, Progress] = {}
        """The progress that the newest file had."""
        self._boot = boot
        self._number = 0
        self._usable = False
        with locked(folder) as self._lock:
            self._recover()
            self._writer = FrameWriter(folder)

    def _recover(self) -> None:
        newest = read_newest(self.folder, SUFFIX, self._boot, ScannedAcks)
        if newest is None:
            return
        if newest.flaw:
            logger.warning("left out the torn end of a file of acknowledgements", extra=newest.torn_end())
        self.lanes = newest.lanes
        self._number = int(newest.path.stem)

    @property
    def usable(self) -> bool:
        """Returns whether `append` can go on. Otherwise a new file must begin first."""
        return self._usable

    @property
    def size(self) -> int:
        return self._writer.position

    @property
    def synced(self) -> int:
        """The number of bytes of the file that are surely on disk."""
        return self._writer.synced

    def begin(self, lanes: Lanes) -> None:
        """Start a new file with the progress of all lanes, on disk. Then delete the older ones."""
        self._usable = False
        self._number += 1
        path = file_path(self.folder, self._number, SUFFIX)
        with explained("Starting", path):
            self._writer.begin(path, encode_header(self._boot, lanes))
            self._writer.sync_folder()
        self._usable = True
        self._delete_older()

    def _delete_older(self) -> None:
        try:
            for path in numbered_files(self.folder, SUFFIX):
                if path < self._writer.path:
                    path.unlink()
        except OSError as error:
            logger.warning(
                "cannot delete an old file of acknowledgements",
                extra={"file": str(error.filename), "reason": error.strerror},
            )

    def append(self, encoded: Sequence[frames.Encoded]) -> None:
        """Write frames. After an error some of their bytes may be there, so a new file must begin."""
        if not self._usable:
            raise LogBroken(f"{self._writer.path}: writing failed before; a new file must begin.")
        with self._abandoning("Appending to"):
            self._writer.append([part for each in encoded for part in each.parts])

    def sync(self) -> None:
        """Bring everything written so far to the disk. After an error a new file must begin."""
        with self._abandoning("Syncing"):
            self._writer.sync()

    @contextmanager
    def _abandoning(self, what: str) -> Iterator[None]:
        """Go on in a new file after an error: it does not depend on what is on disk of this one."""
        try:
            with explained(what, self._writer.path):
                yield
        except FrazilError:
            self._usable = False
            raise

    def close(self) -> None:
        self._usable = False
        self._writer.close()
        self._lock.release()
