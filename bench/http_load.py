"""Clients that each send one request after the other over a connection of their own, as cheaply as possible."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.figures import Latencies

_ANSWER_BYTES = 64 * 1024


class Load(NamedTuple):
    """What the clients of a server measured."""

    requests: int
    seconds: float
    latencies: Latencies
    cpu: float
    """The seconds of processor time that the clients used."""

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def send(address: tuple[str, int], path: str, bodies: Iterable[bytes], clients: int) -> Load:
    """Send each body once, all of them from a process of its own. Every answer must be a success."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_send, (address, path, list(bodies), clients))


def is_open(address: tuple[str, int]) -> bool:
    """Returns whether a server listens there."""
    try:
        socket.create_connection(address).close()
    except OSError:
        return False
    return True


def _send(address: tuple[str, int], path: str, bodies: list[bytes], clients: int) -> Load:
    requests = (_request(path, body) for body in bodies)
    connections = [_Connection(socket.create_connection(address)) for _ in range(clients)]
    with selectors.EpollSelector() as selector:
        started, cpu = time.perf_counter(), time.process_time()
        active = 0
        for connection in connections:
            if connection.begin(requests):
                selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
                active += 1
        while active:
            for key, events in selector.select():
                connection = key.data
                if events & selectors.EVENT_WRITE and connection.write():
                    selector.modify(connection.socket, selectors.EVENT_READ, connection)
                if events & selectors.EVENT_READ and connection.read():
                    if connection.begin(requests):
                        if not connection.write():
                            selector.modify(
                                connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection
                            )
                    else:
                        selector.unregister(connection.socket)
                        active -= 1
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    for connection in connections:
        connection.socket.close()
    return Load(len(bodies), seconds, Latencies.of([each for one in connections for each in one.latencies]), cpu)


def _request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/x-protobuf\r\ncontent-length: {len(body)}"
    )
    return f"{head}\r\n\r\n".encode() + body


@dataclass
class _Connection:
    socket: socket.socket
    latencies: list[float] = field(default_factory=list)
    _left: memoryview = field(default_factory=lambda: memoryview(b""))
    _started: float = 0.0

    def __post_init__(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def begin(self, requests: Iterator[bytes]) -> bool:
        """Take the next request, and return False when there is none left."""
        request = next(requests, None)
        if request is None:
            return False
        self._left = memoryview(request)
        self._started = time.perf_counter()
        return True

    def write(self) -> bool:
        """Send what the socket takes, and return True when all is sent."""
        while self._left:
            try:
                self._left = self._left[self.socket.send(self._left) :]
            except BlockingIOError:
                return False
        return True

    def read(self) -> bool:
        """Read the answer and return True. It is short, so it comes in one packet."""
        answer = self.socket.recv(_ANSWER_BYTES)
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 204")):
            raise RuntimeError(f"refused: {answer[:500]!r}")
        self.latencies.append(time.perf_counter() - self._started)
        return True
