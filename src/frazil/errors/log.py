"""Names what goes wrong with the log: its WAL, its segments, its partitions and their readers."""

from __future__ import annotations

from typing import Self

from frazil.errors.base import FrazilError


class LogError(FrazilError):
    """Raised when the log, that is its WAL or its segments, fails."""

    exit_code = 5
    kind = "log"


class LogCorrupted(LogError):
    """Raised when bytes that were stored cannot be read back."""


class ChecksumMismatch(LogCorrupted):
    """Raised when a frame does not match its checksum."""


class WalDamaged(LogCorrupted):
    """Raised when the WAL of a partition is damaged: `frazil log repair` makes it work again."""


class PartitionDamaged(LogCorrupted):
    """Raised when a partition is stopped, because what is stored of it cannot be read back. All others go on."""

    def __init__(self, where: str, cause: str, command: str = "") -> None:
        """`where` is TOPIC/PARTITION; `command` is a line for a shell on the server that repairs it, if one does."""
        super().__init__(where, cause, command)

    @property
    def command(self) -> str:
        return str(self.args[2])

    def __str__(self) -> str:
        where, cause, command = self.args
        told = f"{where} is stopped, nothing is stored or read there: {cause}"
        return f"{told} Run: {command}" if command else told

    def for_clients(self) -> str:
        where = self.args[0]
        return (
            f"{where} is stopped, nothing is stored or read there: what is stored of it is damaged. On the server, "
            f"/health and the log say how to repair it (`frazil log repair {where}`)."
        )


class LogVersionUnsupported(LogError):
    """Raised when a file was written by a newer version of Frazil."""


class WriteFailed(LogError):
    """Raised when a frame could not be written; it is not stored."""

    retryable = True


class LogBroken(LogError):
    """Raised when the disk failed in a way that leaves the newest frames unknown; reopening reads them again."""


class PartitionLocked(LogError):
    """Raised when another process on this machine holds the partition's directory."""

    retryable = True


class PartitionFenced(LogError):
    """Raised when another writer came first; what was waiting is not stored and may be sent again."""

    public = True
    retryable = True


class PartitionTaken(LogError):
    """Raised when another writer owns a partition for good; its local records wait for `frazil log repair`."""


class SequenceTooOld(LogError):
    """Raised when a producer repeats a sequence so old that its offset is no longer known."""

    public = True


class SegmentsGone(LogError):
    """Raised when a read starts before the first offset that is left."""

    public = True


class SegmentMissing(LogError):
    """Raised when a segment that must exist does not, or is shorter than it must be."""


class OffsetOutOfRange(LogError):
    """Raised when a read goes past the end of the log."""

    public = True


class OffsetGone(LogError):
    """Raised when the messages a reader is at are neither in the log nor in the table; `first_left` is the next."""

    public = True

    def __init__(self, first_left: int, message: str = "") -> None:
        super().__init__(message or f"The messages before offset {first_left} are gone.")
        self.first_left = first_left

    def again(self) -> Self:
        return type(self)(self.first_left, self.args[0])


class EpochChanged(LogError):
    """Raised when a reader's position is in a part of the log that a new epoch replaced."""

    public = True


class TopicNotFound(LogError):
    """Raised when a topic does not exist: its name is wrong, the log is not."""

    public = True
    exit_code = 1


class SubscriptionFenced(LogError):
    """Raised when another process has taken a subscription over, or somebody deleted it; this one has stopped."""

    public = True
