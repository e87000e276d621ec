"""Counts the connections of a port, and closes idle ones and those beyond the limit.

Granian accepts connections by itself, and closes them only when headers of HTTP/1 take too long. A client that sends
nothing, or opens HTTP/2 without a request, would stay for ever, and connections beyond the limit would wait without
an answer. So the open files of the process are inspected from time to time. Connections without a request for too
long are closed, and so are those beyond the limit, first of all those that never had a request.
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

from frazil.web.peers import Peer, connected, peer_of

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
"""This is how long a connection may stay without a request."""
LOOK_SECONDS = 1.0
HURRY_SECONDS = 0.1
"""This is how often connections are inspected, and how often when they are near the limit."""
SAY_SECONDS = 60.0
"""This is how often the log says that there are too many."""

_LAST_SENT = slice(44, 48)
"""The bytes of Linux's `struct tcp_info` that hold `tcpi_last_data_sent`, in milliseconds."""


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
    """Returns the metrics, which all ports of a process share."""
    found = _METRICS.get(registry)
    if found is None:
        found = _METRICS[registry] = ConnectionMetrics(registry)
    return found


class Connections:
    """Watches the connections of one port. It belongs to the event loop. `section` names the settings of the port,
    and the port in metrics."""

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
        """Without `closes`, connections are only counted, because gRPC itself closes those beyond the limit."""
        self._port = port
        self._closes = closes
        self._most = most
        self._section = section
        self._metrics = metrics
        self._idle = idle_seconds
        self._since: dict[Peer, float] = {}
        """The time since when each connection has had no request."""
        self._served: set[Peer] = set()
        """The connections that have had a request."""
        self._asking: dict[Peer, int] = {}
        """The number of running requests of each connection."""
        self._said: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._look(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._metrics.open.labels(self._section).set(0)

    def begin(self, peer: Peer) -> None:
        """Notes that a request has started."""
        self._asking[peer] = self._asking.get(peer, 0) + 1

    def end(self, peer: Peer, now: float) -> None:
        left = self._asking.pop(peer) - 1
        if left:
            self._asking[peer] = left
        self._since[peer] = now
        self._served.add(peer)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        found = connected(self._port)
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
        """Closes so many connections: first those that never had a request, then the idlest, then the newest with
        running requests."""
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


def close(descriptor: int, peer: Peer, port: int, unless_sent_within: float = 0.0) -> bool:
    """Closes the connection of a client, whoever owns it; returns whether it did.

    The descriptor may refer to another file by now, so it is checked again in a duplicate. A connection that was sent
    a part of an answer within `unless_sent_within` seconds stays open.
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        return False
    if peer_of(copy, port) != peer:
        os.close(copy)
        return False
    with socket.socket(fileno=copy) as connection:
        if unless_sent_within and _seconds_since_sent(connection) < unless_sent_within:
            return False
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
    return True


def _seconds_since_sent(connection: socket.socket) -> float:
    if sys.platform != "linux":
        return float("inf")
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_SENT.stop)
    return int.from_bytes(info[_LAST_SENT], sys.byteorder) / 1000
