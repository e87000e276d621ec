"""Runs a proxy before a real HTTP server that fails as a test tells it to.

    proxy.on("PUT", "*.parquet").drop_reply(times=2)   # stored, but the client never learns of it
    proxy.on("GET").answer(503)                        # until proxy.clear()
    proxy.down()                                       # connections are refused until proxy.up()

Each connection carries one request, and its `Host` stays as the client signed it.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Self
from urllib.parse import unquote, urlsplit

_HEAD_END = b"\r\n\r\n"
_CHUNK = 1 << 16
_NO_HEADERS: Mapping[str, str] = {}


class Rule:
    """What happens to requests of one method and path. One of the verbs below must be called on it."""

    def __init__(self, method: str, pattern: str) -> None:
        self._method = method
        self._pattern = pattern
        self._left: int | None = 0
        self.act: Callable[[Exchange], None] = _pass_on

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = _NO_HEADERS, times: int | None = None
    ) -> None:
        """Answer without asking the server."""
        self._set(partial(_answer, status, body, headers), times)

    def drop_request(self, times: int | None = None) -> None:
        """Close the connection without asking the server."""
        self._set(_drop_request, times)

    def drop_reply(self, times: int | None = None) -> None:
        """Let the server do it, then close the connection without a word."""
        self._set(_drop_reply, times)

    def replace_reply(self, status: int, times: int | None = None) -> None:
        """Let the server do it, then answer something else."""
        self._set(partial(_replace_reply, status), times)

    def keep_request(self, times: int | None = None) -> list[Exchange]:
        """Close the connection, and keep the request for the test to `forward` when it likes."""
        kept: list[Exchange] = []
        self._set(kept.append, times)
        return kept

    def cut_reply(self, times: int | None = None) -> None:
        """Relay the first half of what the server answers, then close the connection."""
        self._set(_cut_reply, times)

    def delay(self, seconds: float, times: int | None = None) -> None:
        """Wait, then ask the server."""
        self._set(partial(_delay, seconds), times)

    def delay_reply(self, seconds: float, times: int | None = None) -> None:
        """Let the server do it, wait, then relay the answer."""
        self._set(partial(_delay_reply, seconds), times)

    def take(self, method: str, path: str) -> bool:
        """Returns whether this rule is for the request. A rule with a number of times is used up by it."""
        if self._left == 0 or self._method not in {"*", method} or not fnmatchcase(path, self._pattern):
            return False
        if self._left is not None:
            self._left -= 1
        return True

    def _set(self, act: Callable[[Exchange], None], times: int | None) -> None:
        self.act = act
        self._left = times


class Exchange:
    """One request of a client, and the connection to the server."""

    def __init__(
        self, client: socket.socket, request: bytes, server: tuple[str, int], closing: threading.Event
    ) -> None:
        self.method, target, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
        self.path = unquote(urlsplit(target).path)
        self._client = client
        self._request = request
        self._server = server
        self._closing = closing

    def wait(self, seconds: float) -> None:
        self._closing.wait(seconds)

    def forward(self) -> bytes:
        with socket.create_connection(self._server) as upstream:
            upstream.sendall(self._request)
            return b"".join(iter(lambda: upstream.recv(_CHUNK), b""))

    def reply(self, answer: bytes) -> None:
        self._client.sendall(answer)


class Proxy:
    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        assert parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._counts: Counter[str] = Counter()
        self._clients: set[socket.socket] = set()
        self._closing = threading.Event()
        self._door: socket.socket | None = None
        self._port = 0
        self.up()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def on(self, method: str = "*", pattern: str = "*") -> Rule:
        """Adds a rule for a method and paths like `/bucket/key`.

        Of several that fit, the oldest not used up counts.
        """
        rule = Rule(method, pattern)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Pass everything on again."""
        with self._lock:
            self._rules.clear()

    def count(self, method: str) -> int:
        """Returns how many requests of this method have come."""
        with self._lock:
            return self._counts[method]

    def up(self) -> None:
        """Accept connections, always on the same port."""
        self._door = socket.create_server(("127.0.0.1", self._port), backlog=128)
        self._port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._door,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections and cut those there are."""
        if self._door is not None:
            with suppress(OSError):
                self._door.shutdown(socket.SHUT_RDWR)
            self._door.close()
            self._door = None
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.down()

    def _accept(self, door: socket.socket) -> None:
        while True:
            try:
                client, _ = door.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._clients.add(client)
        try:
            with client, suppress(OSError):
                request = _read_request(client)
                if request:
                    exchange = Exchange(client, request, self._server, self._closing)
                    self._choose(exchange)(exchange)
        finally:
            with self._lock:
                self._clients.discard(client)

    def _choose(self, exchange: Exchange) -> Callable[[Exchange], None]:
        with self._lock:
            self._counts[exchange.method] += 1
            return next((rule.act for rule in self._rules if rule.take(exchange.method, exchange.path)), _pass_on)


def _read_request(client: socket.socket) -> bytes:
    """Returns a whole request, changed so that the server closes the connection after it, or nothing if there is
    none.
    """
    received = b""
    while _HEAD_END not in received:
        more = client.recv(_CHUNK)
        if not more:
            return b""
        received += more
    head, _, start = received.partition(_HEAD_END)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"expect:"))]
    headers = {name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(b":") for x in lines)}
    if b"100-continue" in head.lower():
        client.sendall(b"HTTP/1.1 100 Continue" + _HEAD_END)
    length = int(headers.get(b"content-length", b"0"))
    chunked = headers.get(b"transfer-encoding") == b"chunked"
    body = bytearray(start)
    while not _ends_chunks(body) if chunked else len(body) < length:
        more = client.recv(_CHUNK)
        if not more:
            return b""
        body += more
    return b"\r\n".join([*lines, b"Connection: close"]) + _HEAD_END + bytes(body)


def _ends_chunks(body: bytearray) -> bool:
    """Returns whether the chunk of length zero has arrived. None of these clients sends anything after it."""
    at = 0
    while (line := body.find(b"\r\n", at)) >= 0:
        size = int(body[at:line].split(b";")[0], 16)
        at = line + 2 + size + 2
        if size == 0:
            return len(body) >= at
    return False


def _pass_on(exchange: Exchange) -> None:
    exchange.reply(exchange.forward())


def _answer(status: int, body: bytes, headers: Mapping[str, str], exchange: Exchange) -> None:
    every = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    exchange.reply(f"HTTP/1.1 {status} Told\r\n{head}\r\n".encode() + (b"" if exchange.method == "HEAD" else body))


def _drop_request(_: Exchange) -> None:
    return


def _drop_reply(exchange: Exchange) -> None:
    exchange.forward()


def _replace_reply(status: int, exchange: Exchange) -> None:
    exchange.forward()
    _answer(status, b"", _NO_HEADERS, exchange)


def _cut_reply(exchange: Exchange) -> None:
    answer = exchange.forward()
    body = answer.index(_HEAD_END) + len(_HEAD_END)
    exchange.reply(answer[: (body + len(answer)) // 2])


def _delay(seconds: float, exchange: Exchange) -> None:
    exchange.wait(seconds)
    _pass_on(exchange)


def _delay_reply(seconds: float, exchange: Exchange) -> None:
    answer = exchange.forward()
    exchange.wait(seconds)
    exchange.reply(answer)
