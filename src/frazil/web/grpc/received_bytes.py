"""How many bytes the connections of a port have brought, as the kernel counts them.

gRPC shows a message when all of it is here, and nothing of it before.
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
"""Where `struct tcp_info` of Linux has `tcpi_bytes_received`."""


class ReceivedBytes:
    """Knows nothing but on Linux."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._descriptors: dict[Address, int] = {}

    def of(self, peer: Address) -> int | None:
        """All that the connection of a client has brought so far; None if it is not known, as new ones are not."""
        descriptor = self._descriptors.get(peer)
        found = None if descriptor is None else _asked(descriptor, self._port)
        return found[1] if found is not None and found[0] == peer else None

    def find(self) -> None:
        """Know the connections of the port, and no others."""
        self._descriptors = {}
        for descriptor in _open_files():
            found = _asked(descriptor, self._port)
            if found is not None:
                self._descriptors[found[0]] = descriptor


def _open_files() -> list[int]:
    """None where the system does not tell, or has no room for the question."""
    try:
        return [int(name) for name in os.listdir(_OPEN)] if sys.platform == "linux" else []
    except OSError:
        return []


def address(peer: str) -> Address:
    """Of a client, as gRPC calls it: `ipv4:127.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return _address(host.strip("[]"), int(port))


def _address(host: str, port: int) -> Address:
    found = ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found), port


def _asked(descriptor: int, port: int) -> tuple[Address, int] | None:
    """Who is at the other end of a connection to the port, and what has come; None if it is no such connection.

    The descriptor is gRPC's, which may close it at any time, so that its number may be that of another file. It is
    only asked, and neither copied nor closed.
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
        told = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COUNT.stop)
        return _address(host, other), int.from_bytes(told[_COUNT], sys.byteorder)
    except OSError:
        return None
    finally:
        found.detach()
