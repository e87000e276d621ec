"""Runs an ASGI application on granian, inside the event loop of the caller.

Granian's embedded server binds with SO_REUSEPORT, so a second server on the same port would go unnoticed, and it
cannot tell which port it got for port 0. So the socket is bound here and handed over.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import time
from typing import Any

from granian._granian import SocketHolder
from granian.constants import Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server as Embedded
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.config.sections.endpoint import MAX_CONNECTIONS, TlsConfig
from frazil.config.setting_tree import variable
from frazil.errors import ConfigError
from frazil.web.connections import IDLE_SECONDS, Connections, connection_metrics
from frazil.web.peers import normalized

HEADER_SECONDS = 30.0
"""This is how long the headers of an HTTP/1 request may take, counted from the end of the request before it."""
_BACKLOG = 1024

# This leaves the handlers of the process alone; granian's own set-up would reset them and write to stdout.
_QUIET: dict[str, Any] = {"incremental": True, "formatters": {}, "handlers": {}, "loggers": {"_granian": {}}}


class HttpServer:
    """Serves one application on one port. `section` names the settings to blame when it cannot listen."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        section: str = "server",
        tls: TlsConfig | None = None,
        *,
        max_connections: int = MAX_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        self._tls = tls is not None and tls.cert is not None
        self._socket = _listen(host, port, section)
        self.host, self.port = self._socket.getsockname()[:2]
        measured = connection_metrics(metrics or CollectorRegistry())
        self._connections = Connections(self.port, max_connections, section, measured, idle_seconds=idle_seconds)
        self._requests = _Requests(app, self._connections)
        self._server = _Granian(self._requests, self._socket, tls or TlsConfig(), max_connections, idle_seconds)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """A URL that a program on this machine can use."""
        address = ipaddress.ip_address(self.host)
        if address.is_unspecified:
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
        scheme = "https" if self._tls else "http"
        return f"{scheme}://[{address}]:{self.port}" if address.version == 6 else f"{scheme}://{address}:{self.port}"

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(), name=f"http {self.port}")
        self._connections.start()

    async def wait(self) -> None:
        """Returns when the server has ended; raises if it failed."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self, timeout: float = 5.0) -> None:
        """Accepts nothing more, and lets running requests end within `timeout` seconds before they are cancelled."""
        if self._task is None:
            self._socket.close()
            return
        self._connections.stop()
        self._server.stop()  # type: ignore[no-untyped-call]
        done, _ = await asyncio.wait([self._task], timeout=timeout)
        if not done:
            self._requests.cancel()
            done, _ = await asyncio.wait([self._task], timeout=1)
        if not done:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _listen(host: str, port: int, section: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {_advice(errno.EADDRNOTAVAIL, section)}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit this: the end of an answer must not wait for the acknowledgement of its beginning.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {_advice(error.errno or 0, section)}") from error
    return listener


def _advice(code: int, section: str) -> str:
    path = tuple(section.split("."))
    other_host = f"choose another address with {section}.host or {variable((*path, 'host'))}"
    other_port = f"choose another port with {section}.port or {variable((*path, 'port'))} (0 takes a free one)"
    match code:
        case errno.EADDRINUSE:
            return f"the port is in use, perhaps by another Frazil; stop that, or {other_port}"
        case errno.EACCES:
            return f"this user may not use the port; {other_port}"
        case errno.EADDRNOTAVAIL:
            return f"it is no address of this machine; {other_host}"
    return f"{os.strerror(code)}; {other_host}, or {other_port}"


class _Granian(Embedded):
    def __init__(
        self, app: ASGIApp, listener: socket.socket, tls: TlsConfig, max_connections: int, idle_seconds: float
    ) -> None:
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            backlog=_BACKLOG,
            # Connections beyond the limit are accepted only to be closed: without an answer, clients would wait.
            backpressure=max_connections + max(max_connections // 4, 16),
            http1_settings=HTTP1Settings(header_read_timeout=int(min(HEADER_SECONDS, idle_seconds) * 1000)),
            log_level=LogLevels.error,
            log_dictconfig=_QUIET,
            ssl_cert=tls.cert,
            ssl_key=tls.key,
            ssl_protocol_min=SSLProtocols.tls12,
        )
        self._listener = listener

    def _init_shared_socket(self) -> None:
        # granian's stubs know neither this constructor nor that the attribute changes.
        self._shd = SocketHolder(self._listener.detach(), False, _BACKLOG)  # type: ignore[assignment, call-arg]


class _Requests:
    """Wraps the application and tracks its running requests, so that a stop can cancel them and their connections
    count as busy."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app = app
        self._connections = connections
        self._running: set[asyncio.Task[Any]] = set()
        self._cancelled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        host, port = scope["client"]
        peer = normalized(host, int(port))
        self._connections.begin(peer)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
        finally:
            self._running.discard(task)
            self._connections.end(peer, time.monotonic())

    def cancel(self) -> None:
        self._cancelled = True
        for task in self._running:
            task.cancel()
