"""The connections of a port: how many there are, and which of them have to go.

Granian accepts connections by itself, and closes them only when headers of HTTP/1 take too long. A client that sends
nothing, or speaks HTTP/2 and asks for nothing, would stay for ever, and those beyond what is accepted would wait
without a word. So the open files of the process are looked through now and then. Connections that ask for nothing
for too long are closed, and so are those beyond the bound, first of all those that never asked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge

logger = logging.getLogger(__name__)

Peer = tuple[str, int]

IDLE_SECONDS = 60.0
"""How long a connection may stay without a request."""
LOOK_SECONDS = 1.0
HURRY_SECONDS = 0.1
"""How often it is looked, and how often when there are about as many as may be."""
SAY_SECONDS = 60.0
"""How often it is said that there are too many."""

_OPEN_FILES = "/dev/fd"
_LAST_SENT = slice(44, 48)
"""Where `struct tcp_info` of Linux has `tcpi_last_data_sent`, in milliseconds."""


class ConnectionMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.open = Gauge("frazil_connections", "Connections that are open, by port.", ["port"], registry=registry)
        self.closed = Counter(
            "frazil_connections_closed",
            "Connections that were closed because nothing was asked on them (idle), or because there were too many "
            "(limit), by port.",
            ["port", "reason"],
            registry=registry,
        )


_METRICS: WeakKeyDictionary[CollectorRegistry, ConnectionMetrics] = WeakKeyDictionary()


def connection_metrics(registry: CollectorRegistry) -> ConnectionMetrics:
    """All ports of a process share them."""
    found = _METRICS.get(registry)
    if found is None:
        found = _METRICS[registry] = ConnectionMetrics(registry)
    return found


class Connections:
    """Belongs to the event loop. `section` names the settings of the port, and the port in metrics."""

    def __init__(
        self,
        port: int,
        most: int,
        section: str,
        metrics: ConnectionMetrics,
        *,
        idle_seconds: float = IDLE_SECONDS,
        closes: bool = True,
    ) -> None:
        """Without `closes` they are only counted: gRPC closes by itself what is too much."""
        self._port = port
        self._closes = closes
        self._most = most
        self._section = section
        self._metrics = metrics
        self._idle = idle_seconds
        self._since: dict[Peer, float] = {}
        """Since when nothing has been asked on each connection."""
        self._served: set[Peer] = set()
        """Those that have asked for something."""
        self._asking: dict[Peer, int] = {}
        """Requests that are worked on."""
        self._said: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._look(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._metrics.open.labels(self._section).set(0)

    def begin(self, peer: Peer) -> None:
        """A request came."""
        self._asking[peer] = self._asking.get(peer, 0) + 1

    def end(self, peer: Peer, now: float) -> None:
        left = self._asking.pop(peer) - 1
        if left:
            self._asking[peer] = left
        self._since[peer] = now
        self._served.add(peer)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        found = open_connections(self._port)
        self._since = {peer: self._since.get(peer, now) for peer in found}
        self._served &= found.keys()
        count = len(found)
        full = count >= self._most
        if self._closes:
            count -= self._close_idle(found, now)
            full = count > self._most
            count -= self._close_most_idle(found, count - self._most)
        if full:
            self._say(now)
        self._metrics.open.labels(self._section).set(count)
        hurried = self._closes and len(found) >= self._most
        self._timer = loop.call_later(HURRY_SECONDS if hurried else LOOK_SECONDS, self._look, loop)

    def _close_idle(self, found: dict[Peer, int], now: float) -> int:
        count = 0
        for peer, since in self._since.items():
            idle = now - since > self._idle and peer not in self._asking
            if idle and close(found[peer], peer, self._port, self._idle):
                del found[peer]
                count += 1
        self._metrics.closed.labels(self._section, "idle").inc(count)
        return count

    def _close_most_idle(self, found: dict[Peer, int], wanted: int) -> int:
        """Close so many: first those that never asked, then the idlest, then the newest that are asking."""
        if wanted <= 0:
            return 0
        idle = sorted(
            (peer for peer in found if peer not in self._asking),
            key=lambda peer: (peer in self._served, self._since[peer]),
        )
        asking = sorted((peer for peer in found if peer in self._asking), key=lambda peer: -self._since[peer])
        count = 0
        for peer in (*idle, *asking):
            count += close(found[peer], peer, self._port)
            if count == wanted:
                break
        self._metrics.closed.labels(self._section, "limit").inc(count)
        return count

    def _say(self, now: float) -> None:
        if self._said is None or now - self._said >= SAY_SECONDS:
            self._said = now
            logger.warning(
                "there are as many connections as may be; more are closed",
                extra={"port": self._port, "most": self._most, "setting": f"{self._section}.max_connections"},
            )


def open_connections(port: int) -> dict[Peer, int]:
    """Who is connected to a port of this process, and the descriptor of each connection."""
    found = ((_peer(descriptor, port), descriptor) for descriptor in _open_files())
    return {peer: descriptor for peer, descriptor in found if peer is not None}


def close(descriptor: int, peer: Peer, port: int, unless_sent_within: float = 0.0) -> bool:
    """Close the connection of a peer, whoever owns it; whether that was done.

    The descriptor may be another file by now. So it is looked at once more, in a copy that stays what it is. One that
    was sent something of an answer within so many seconds is let be.
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        return False
    if _peer(copy, port) != peer:
        os.close(copy)
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=copy) as connection:
        if unless_sent_within and _seconds_since_sent(connection) < unless_sent_within:
            return False
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
    return True


def _open_files() -> list[int]:
    """None where the system does not tell, or has no room for the question."""
    try:
        return [int(name) for name in os.listdir(_OPEN_FILES)]
    except OSError:
        return []


def _peer(descriptor: int, port: int) -> Peer | None:
    """Who is at the other end of a connection to the port; None if it is no such connection.

    The descriptor is somebody else's, who may close it at any time. It is only asked.
    """
    try:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:
        return None
    try:
        own = found.getsockname()
        if not isinstance(own, tuple) or own[1] != port:
            return None
        host, other = found.getpeername()[:2]
    except (OSError, IndexError):
        return None
    finally:
        found.detach()
    return host.partition("%")[0], other


def _seconds_since_sent(connection: socket.socket) -> float:
    if sys.platform != "linux":
        return float("inf")
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_SENT.stop)
    return int.from_bytes(told[_LAST_SENT], sys.byteorder) / 1000
