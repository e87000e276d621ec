"""Names what goes wrong with the transaction log of a pipeline."""

from __future__ import annotations

from frazil.errors.log import LogBroken, LogCorrupted, LogError, WriteFailed


class TransactionLogError(LogError):
    """Raised when the transaction log of a pipeline fails; no rows depend on it."""

    kind = "txlog"


class TransactionLogDamaged(TransactionLogError, LogCorrupted):
    """Raised when a file of the transaction log cannot be read back."""


class TransactionLogWriteFailed(TransactionLogError, WriteFailed):
    """Raised when an entry of the transaction log could not be written; it is not stored."""


class TransactionLogBroken(TransactionLogError, LogBroken):
    """Raised when the disk failed in a way that leaves the newest entries of the transaction log unknown."""


class RecoveryFailed(TransactionLogError):
    """Raised when what a pipeline that is gone left open cannot be taken over."""


class CheckpointFailed(TransactionLogError):
    """Raised when a checkpoint of the transaction log could not be written."""

    retryable = True
