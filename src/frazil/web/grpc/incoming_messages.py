"""Messages of gRPC that are on their way: what has come of them takes room, and nobody may keep it for ever.

gRPC hands over whole messages, and says nothing of those that are not. So it is looked now and then what their
connections have brought.
"""

from __future__ import annotations

import asyncio
from typing import Any

from frazil.errors import FrazilError, TooMuch
from frazil.web import bodies
from frazil.web.admission import Admission, Ticket
from frazil.web.deadlines import Deadline
from frazil.web.grpc.received_bytes import Address, ReceivedBytes, address

WINDOW = 1 << 20
"""How much of a message may come before its call is read: enough for most, so that they need not wait."""
OPTIONS = [("grpc.http2.lookahead_bytes", WINDOW), ("grpc.http2.bdp_probe", 0)]
"""Of the server. A probe would widen the window to many megabytes."""
LOOK_SECONDS = 0.05
"""How often it is looked; what comes in between is counted afterwards."""
_FEW = 64
"""Connections that may be remembered although they are no longer there."""


class IncomingMessages:
    """Belongs to the event loop."""

    def __init__(self, port: int, admission: Admission) -> None:
        self._admission = admission
        self._received = ReceivedBytes(port)
        self._connections: dict[str, _Connection] = {}
        self._many = _FEW
        self._reading: set[_Connection] = set()
        self._looking = False

    async def read(self, context: Any) -> Any:
        """The message of a call. Raises `TooMuch` and `BodyStalled`."""
        loop = asyncio.get_running_loop()
        connection = self._connection(context.peer(), loop.time())
        call = _Call(connection.brought)
        try:
            with Deadline(loop.time() + bodies.BODY_SECONDS) as call.deadline:
                self._begin(connection, call, loop)
                return await context.read()
        except TimeoutError as error:
            raise call.refusal or _stalled() from error
        finally:
            connection.end(call)
            if not connection.calls:
                self._reading.discard(connection)

    def _begin(self, connection: _Connection, call: _Call, loop: asyncio.AbstractEventLoop) -> None:
        connection.calls[call] = None
        connection.heard = loop.time()
        self._reading.add(connection)
        if not self._looking:
            self._look_later(loop)

    def _connection(self, peer: str, now: float) -> _Connection:
        found = self._connections.get(peer)
        if found is None:
            if len(self._connections) >= self._many:
                self._forget_closed()
            # All that a new connection has brought is of its first call.
            found = self._connections[peer] = _Connection(address(peer), self._admission.ticket(), now)
        elif not found.calls and now - found.looked > LOOK_SECONDS:
            self._ask(found, now)
        return found

    def _forget_closed(self) -> None:
        self._received.find()
        kept = (each for each in self._connections.items() if each[1].calls or self._received.of(each[1].peer))
        self._connections = dict(kept)
        self._many = max(_FEW, 2 * len(self._connections))

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = True
        loop.call_later(LOOK_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = False
        now = loop.time()
        for connection in self._reading:
            if self._ask(connection, now):
                connection.count(now)
        if self._reading:
            self._look_later(loop)

    def _ask(self, connection: _Connection, now: float) -> bool:
        """What a connection has brought; whether it is known."""
        brought = self._received.of(connection.peer)
        if brought is None:
            self._received.find()
            brought = self._received.of(connection.peer)
        connection.looked = now
        if brought is None:
            return False
        if brought != connection.brought:
            connection.brought, connection.heard = brought, now
        return True


class _Call:
    """One whose message is not complete."""

    deadline: Deadline

    def __init__(self, began: int) -> None:
        """`began` is what its connection had brought before."""
        self.began = began
        self.refusal: FrazilError | None = None


class _Connection:
    """Nobody knows which of its calls bytes are of. So all that came since the oldest of them began is counted."""

    def __init__(self, peer: Address, ticket: Ticket, now: float) -> None:
        self.peer = peer
        self.calls: dict[_Call, None] = {}
        """In the order in which they began."""
        self.brought = 0
        self.looked = now
        self.heard = now
        """When something came."""
        self._ticket = ticket

    def count(self, now: float) -> None:
        """Refuse the oldest calls while there is no room, and all of them after too long a silence."""
        if now - self.heard > bodies.SILENCE_SECONDS:
            self._refuse_oldest(_stalled(), len(self.calls))
        while self._held() > self._ticket.nbytes:
            try:
                self._ticket.add(self._held() - self._ticket.nbytes)
            except TooMuch as error:
                self._refuse_oldest(error, 1)
        self._give_back()

    def end(self, call: _Call) -> None:
        self.calls.pop(call, None)
        self._give_back()

    def _refuse_oldest(self, error: FrazilError, count: int) -> None:
        for call in list(self.calls)[:count]:
            del self.calls[call]
            if not call.deadline.passed:
                call.refusal = error
                call.deadline.pass_by()

    def _held(self) -> int:
        oldest = next(iter(self.calls), None)
        return 0 if oldest is None else self.brought - oldest.began

    def _give_back(self) -> None:
        if self._ticket.nbytes:
            self._ticket.keep(min(self._held(), self._ticket.nbytes))


def _stalled() -> bodies.BodyStalled:
    return bodies.BodyStalled(
        f"The message is not complete: nothing came of it for {bodies.SILENCE_SECONDS:g} seconds, or it takes more "
        f"than {bodies.BODY_SECONDS:g}. Nothing of it is stored."
    )
