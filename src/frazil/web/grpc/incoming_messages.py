"""Bounds the memory and the time of gRPC messages that are still arriving.

gRPC hands over complete messages, and says nothing about incomplete ones. So the bytes that their connections have
received are inspected from time to time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from frazil.errors import FrazilError, TooMuch
from frazil.web import bodies
from frazil.web.admission import Admission, Ticket
from frazil.web.deadlines import Deadline
from frazil.web.grpc.received_bytes import ReceivedBytes, peer_of_call
from frazil.web.peers import Peer

WINDOW = 1 << 20
"""This is how much of a message may arrive before its call is read: enough for most, so that they need not wait."""
OPTIONS = [("grpc.http2.lookahead_bytes", WINDOW), ("grpc.http2.bdp_probe", 0)]
"""Options of the server. A bandwidth probe would widen the window to many megabytes."""
LOOK_SECONDS = 0.05
"""This is how often connections are inspected; what arrives in between is counted afterwards."""
_FEW = 64
"""The number of closed connections that may be remembered."""


class IncomingMessages:
    """Reads the messages of calls. It belongs to the event loop."""

    def __init__(self, port: int, admission: Admission) -> None:
        self._admission = admission
        self._received = ReceivedBytes(port)
        self._connections: dict[str, _Connection] = {}
        self._many = _FEW
        self._reading: set[_Connection] = set()
        self._looking = False

    async def read(self, context: Any) -> Any:
        """Returns the message of a call. Raises `TooMuch` and `BodyStalled`."""
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
            # All bytes of a new connection belong to its first call.
            found = self._connections[peer] = _Connection(peer_of_call(peer), self._admission.ticket(), now)
        elif not found.calls and now - found.inspected > LOOK_SECONDS:
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
        """Updates the bytes that a connection has received; returns whether they are known."""
        brought = self._received.of(connection.peer)
        if brought is None:
            self._received.find()
            brought = self._received.of(connection.peer)
        connection.inspected = now
        if brought is None:
            return False
        if brought != connection.brought:
            connection.brought, connection.heard = brought, now
        return True


class _Call:
    """A call whose message is not complete."""

    deadline: Deadline

    def __init__(self, began: int) -> None:
        """`began` is the number of bytes that its connection had received before."""
        self.began = began
        self.refusal: FrazilError | None = None


class _Connection:
    """A connection with its calls. It is unknown to which call the bytes belong, so all bytes since the oldest call
    began are counted."""

    def __init__(self, peer: Peer, ticket: Ticket, now: float) -> None:
        self.peer = peer
        self.calls: dict[_Call, None] = {}
        """The calls in the order in which they began."""
        self.brought = 0
        self.inspected = now
        self.heard = now
        """The time when the last bytes arrived."""
        self._ticket = ticket

    def count(self, now: float) -> None:
        """Refuses the oldest calls while there is no room, and all of them after too long a silence."""
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
