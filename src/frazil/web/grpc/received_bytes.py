"""Asks the kernel how many bytes the connections of a port have received.

gRPC shows a message only when it is complete.
"""

from __future__ import annotations

import os
import socket
import sys
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote

Address = tuple[str, int]

_OPEN = Path("/proc/self/fd")
_COUNT = slice(128, 136)
"""The bytes of Linux's `struct tcp_info` that hold `tcpi_bytes_received`."""


class ReceivedBytes:
    """The received bytes of a port's connections. They are known on Linux only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._descriptors: dict[Address, int] = {}

    def of(self, peer: Address) -> int | None:
        """Returns the bytes received from a client so far; None if they are not known, as for new connections."""
        descriptor = self._descriptors.get(peer)
        found = None if descriptor is None else _asked(descriptor, self._port)
        return found[1] if found is not None and found[0] == peer else None

    def find(self) -> None:
        """Finds the connections of the port, and forgets closed ones."""
        self._descriptors = {}
        for descriptor in _open_files():
            found = _asked(descriptor, self._port)
            if found is not None:
                self._descriptors[found[0]] = descriptor


def _open_files() -> list[int]:
    """Returns the open descriptors; nothing if the system cannot list them, or has no descriptor left to do so."""
    try:
        return [int(name) for name in os.listdir(_OPEN)] if sys.platform == "linux" else []
    except OSError:
        return []


def address(peer: str) -> Address:
    """Parses the address of a client as gRPC writes it: `ipv4:127.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return _address(host.strip("[]"), int(port))


def _address(host: str, port: int) -> Address:
    found = ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found), port


def _asked(descriptor: int, port: int) -> tuple[Address, int] | None:
    """Returns the client of a connection to the port, and the bytes received from it; None if the descriptor is not
    such a connection.

    The descriptor belongs to gRPC, which may close it at any time, so its number may be that of another file. It is
    only queried, and neither duplicated nor closed.
    """
    if sys.platform != "linux":
        return None
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != port:
            return None
        host, other = found.getpeername()[:2]
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COUNT.stop)
        return _address(host, other), int.from_bytes(info[_COUNT], sys.byteorder)
    except OSError:
        return None
    finally:
        found.detach()
