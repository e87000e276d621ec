"""Refuses requests that browsers send for pages of other sites, which must neither read nor write here.

A page whose owner points its name at this machine (DNS rebinding) would be taken for one of ours, and could read the
answers. Its name is in the header `Host`. Names that public DNS cannot have cannot be pointed anywhere.

A page of another site may also post to an address of this machine. Then its own name is in the header `Origin`, which
programs other than browsers do not send.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Awaitable, Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.config.setting_tree import variable

SETTING = f"server.allowed_hosts or {variable(('server', 'allowed_hosts'))}"

_PRIVATE = (".localhost", ".local", ".internal", ".home.arpa", ".svc")
"""Suffixes of names that are not in public DNS: of a machine, a home, a company or a cluster."""
_PORT = re.compile(r":\d*$")


class AllowedHosts:
    """The names under which this process is reached, by its settings."""

    def __init__(self, more: Sequence[str], own: str) -> None:
        """`more` has names, `*.` with a domain, or `*` for any; `own` is the address on which the process listens."""
        self._any = "*" in more
        self._names = {name.lower() for name in (*more, own, socket.gethostname(), socket.getfqdn())}
        self._domains = tuple(name[1:].lower() for name in more if name.startswith("*."))

    def is_ours(self, host: str) -> bool:
        """Returns whether the host is an address, a name that nobody else can own, or an allowed one."""
        return _address(host) is not None or "." not in host or host.endswith(_PRIVATE) or self.is_named(host)

    def is_named(self, host: str) -> bool:
        """Returns whether the settings, or the machine, have this name."""
        return self._any or host in self._names or (bool(self._domains) and host.endswith(self._domains))

    def may_ask(self, origin: str, host: str) -> bool:
        """Returns whether a page of this origin may send requests to this host."""
        try:
            page = (urlsplit(origin).hostname or "").rstrip(".")
        except ValueError:
            return False
        address = _address(page)
        here = address is not None and address.is_loopback
        return here or page == "localhost" or self.is_named(page) or (page == host and self.is_ours(host))


class BrowserGuard:
    """Wraps an application, and refuses requests from pages of other sites. With `names`, only names of this process
    are served."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts, *, names: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._names = names

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        hosts: list[bytes] = []
        origin: bytes | None = None
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origin = value
        if not self._names and origin is None:
            return self._app(scope, receive, send)
        refused = self._refusal(hosts, origin)
        return self._app(scope, receive, send) if refused is None else _answer(*refused, send)

    def _refusal(self, hosts: list[bytes], origin: bytes | None) -> tuple[int, str] | None:
        if len(hosts) > 1:
            return 400, f"The header Host is there {len(hosts)} times."
        host = host_name(hosts[0].decode("latin-1")) if hosts else ""
        if not self._hosts.is_ours(host):
            return 421, (
                f"Frazil does not answer under the name {host[:100]!r}. If that is a name of this machine, add it to "
                f"{SETTING}."
            )
        if origin is not None and not self._hosts.may_ask(origin.decode("latin-1"), host):
            return 403, (
                f"Web pages of {origin.decode('latin-1')[:100]!r} may not send requests here. If they should, add "
                f"their host to {SETTING}."
            )
        return None


def host_name(header: str) -> str:
    """Returns the name in a header `Host`, without the port."""
    return _PORT.sub("", header.strip()).lower().rstrip(".")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


async def _answer(status: int, reason: str, send: Send) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
