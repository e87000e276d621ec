"""Names what goes wrong with records in memory."""

from __future__ import annotations

from frazil.errors.base import FrazilError, SerializationError


class BufferingError(FrazilError):
    """Raised when records cannot be kept in memory."""

    public = True
    kind = "buffer"


class BufferFull(BufferingError):
    """Raised when a buffer has no room for more records."""

    retryable = True


class LogFull(BufferFull):
    """Raised when the tail of a log stayed full for the whole time an append may wait."""


class NotBuffered(BufferingError):
    """Raised when records are asked for that are not in memory any more; `first` is the first offset that is."""

    def __init__(self, message: str, first: int | None = None) -> None:
        super().__init__(message)
        self.first = first


class SchemaMismatch(BufferingError):
    """Raised when records do not fit the schema of their topic, nor a schema it may evolve to."""


class ArrowConversion(SchemaMismatch):
    """Raised when values cannot be turned into Arrow arrays of the type that they are to have."""


class MemoryAlignment(BufferingError, SerializationError):
    """Raised when a buffer of an Arrow file or stream does not begin where Arrow's format lets it begin."""


class EmptyBuffer(BufferingError):
    """Raised when something is asked of a buffer that has no records."""


class RecordTooLarge(BufferingError):
    """Raised when one append is larger than the log's limit."""
