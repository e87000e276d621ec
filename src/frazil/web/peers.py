"""Finds the clients that are connected to a port among the open files of this process.

The servers of other libraries do not hand out their connections, so the kernel is asked about each open file. A
descriptor belongs to somebody else, who may close it at any time, so its number may be that of another file. It is
only queried, and neither duplicated nor closed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

T = TypeVar("T")

Peer = tuple[str, int]
"""The address and the port of a client, as `normalized` writes it."""

_OPEN_FILES = "/dev/fd"


def normalized(host: str, port: int) -> Peer:
    """Returns the same peer for all ways to write its address: without the zone, and IPv4 as such."""
    if ":" not in host:
        return host, port
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address), port


def connected(port: int) -> dict[Peer, int]:
    """Returns the clients that are connected to a port of this process, with the descriptor of each connection."""
    found = ((peer_of(descriptor, port), descriptor) for descriptor in _open_files())
    return {peer: descriptor for peer, descriptor in found if peer is not None}


def peer_of(descriptor: int, port: int) -> Peer | None:
    """Returns the client of a connection to the port; None if the descriptor is not such a connection."""
    found = ask(descriptor, port, lambda _: None)
    return None if found is None else found[0]


def ask(descriptor: int, port: int, question: Callable[[socket.socket], T]) -> tuple[Peer, T] | None:
    """Returns the client of a connection to the port, and what the socket of the connection answers to the question.

    Returns None if the descriptor is not such a connection.
    """
    try:
        # The family is left to the kernel: addresses of another one would be misread.
        found = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != port:
            return None
        host, other = found.getpeername()[:2]
        return normalized(host, other), question(found)
    except OSError:
        return None
    finally:
        found.detach()


def _open_files() -> list[int]:
    """Returns the open descriptors; nothing if the system cannot list them, or has no descriptor left to do so."""
    try:
        return [int(name) for name in os.listdir(_OPEN_FILES)]
    except OSError:
        return []
