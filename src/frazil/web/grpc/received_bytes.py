"""Asks the kernel how many bytes the connections of a port have received.

gRPC shows a message only when it is complete.
"""

from __future__ import annotations

import socket
import sys
from urllib.parse import unquote

from frazil.web.peers import Peer, ask, connected, normalized

_COUNT = slice(128, 136)
"""The bytes of Linux's `struct tcp_info` that hold `tcpi_bytes_received`."""


class ReceivedBytes:
    """The received bytes of a port's connections. They are known on Linux only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._descriptors: dict[Peer, int] = {}

    def of(self, peer: Peer) -> int | None:
        """Returns the bytes received from a client so far; None if they are not known, as for new connections."""
        descriptor = self._descriptors.get(peer)
        found = None if descriptor is None else ask(descriptor, self._port, _received)
        return found[1] if found is not None and found[0] == peer else None

    def find(self) -> None:
        """Finds the connections of the port, and forgets closed ones."""
        self._descriptors = connected(self._port) if sys.platform == "linux" else {}


def peer_of_call(peer: str) -> Peer:
    """Parses the address of a client as gRPC writes it: `ipv4:127.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return normalized(host.strip("[]"), int(port))


def _received(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COUNT.stop)
    return int.from_bytes(info[_COUNT], sys.byteorder)
