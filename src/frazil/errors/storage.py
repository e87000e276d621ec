"""Names what goes wrong with object stores and the local file system."""

from __future__ import annotations

from frazil.errors.base import FrazilError


class StorageError(FrazilError):
    """Raised when an object store fails."""

    exit_code = 4
    kind = "storage"


class StorageUnavailable(StorageError):
    """Raised when an object store does not answer, or fails in a way that may pass; the outcome is unknown."""

    retryable = True


class ObjectExists(StorageError):
    """Raised when a create-only put finds an object of that name."""


class ObjectNotFound(StorageError):
    """Raised when there is no object of that name."""


class TableDamaged(StorageError):
    """Raised when a file of a table is not as it was written: its checksums say so, or it cannot be decoded.
    Names the file below the warehouse."""

    public = True


class FrazilIoError(FrazilError):
    """Raised when the local file system fails."""

    exit_code = 4
    kind = "storage"


class DiskFull(FrazilIoError):
    """Raised when the disk has no room; nothing of the call is stored."""

    retryable = True

    def for_clients(self) -> str:
        return "There is no room on the disk of the server, and nothing of this was stored. Try again later."
