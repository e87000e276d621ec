"""The root of all errors, and those that belong to no part of their own."""

from __future__ import annotations

from typing import Self


class FrazilError(Exception):
    """The root of all errors of Frazil; also raised for what fits no other kind."""

    exit_code = 10
    kind = "other"
    retryable = False
    public = False
    """This says whether the text names nothing of the server: no folder, no address, no credentials."""

    def for_clients(self) -> str | None:
        """Returns what may be told to whoever sent a request; None when that is for the server's log only."""
        return str(self) if self.public else None

    def again(self) -> Self:
        """A copy to raise: one that is raised twice would keep the frames of both alive."""
        return type(self)(*self.args)


class SerializationError(FrazilError):
    """Raised when bytes and values cannot be turned into each other."""

    public = True


class ShutdownError(FrazilError):
    """Raised when something is asked of a part that is shutting down."""

    public = True
    retryable = True


class DependencyUnavailable(FrazilError):
    """Raised instead of a call to something that has failed too often; it is tried again after a while."""

    retryable = True

    def __init__(self, message: str, cause: FrazilError | None = None, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.cause = cause
        self.retry_after_seconds = retry_after_seconds
        if cause is not None:
            self.exit_code = cause.exit_code
            self.kind = cause.kind

    def again(self) -> Self:
        return type(self)(self.args[0], self.cause, self.retry_after_seconds)


class HealthCheckFailed(FrazilError):
    """Raised when a running Frazil is unhealthy or does not answer."""

    exit_code = 6
    retryable = True


class Interrupted(FrazilError):
    """Raised when a signal ended the work."""

    exit_code = 130
