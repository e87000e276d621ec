"""Bounds the bytes of requests in flight: what exceeds it is refused before it is read."""

from __future__ import annotations

from prometheus_client import Gauge

from frazil.errors import TooMuch


class Admission:
    """Counts the bytes in flight. It belongs to the event loop."""

    def __init__(self, most_bytes: int, setting: str, gauge: Gauge | None = None) -> None:
        """`setting` says where the limit comes from; `gauge` shows the bytes in flight."""
        self._setting = setting
        self._most = most_bytes
        self._used = 0
        if gauge is not None:
            gauge.set_function(lambda: self._used)

    @property
    def nbytes(self) -> int:
        """Returns the bytes in flight now."""
        return self._used

    def ticket(self) -> Ticket:
        """Returns the ticket of one request, from its first byte to its answer."""
        return Ticket(self)

    def check(self, nbytes: int, own: int) -> None:
        """Raises `TooMuch` if there is no room for `nbytes` more of a request that has `own` bytes here already."""
        # A request that is alone is always let in, because its size has a limit of its own.
        if self._used > own and self._used + nbytes > self._most:
            raise TooMuch(f"More than {self._most:,} bytes of requests are being worked on ({self._setting}).")

    def change(self, nbytes: int) -> None:
        self._used += nbytes


class Ticket:
    """The bytes that one request has in flight. It must be given back."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.nbytes = 0

    def expect(self, nbytes: int) -> None:
        """Raises `TooMuch` if there is no room now for what is to come. No room is reserved, because it may never
        come."""
        self._admission.check(nbytes, self.nbytes)

    def add(self, nbytes: int) -> None:
        """Counts what has arrived. Raises `TooMuch` if there is no room for it."""
        self._admission.check(nbytes, self.nbytes)
        self.nbytes += nbytes
        self._admission.change(nbytes)

    def keep(self, nbytes: int) -> None:
        """Gives back all but `nbytes` bytes."""
        self._admission.change(nbytes - self.nbytes)
        self.nbytes = nbytes

    def give_back(self) -> None:
        self.keep(0)
