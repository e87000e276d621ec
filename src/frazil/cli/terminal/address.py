"""Parses the address of a running Frazil as people give it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frazil.errors import ConfigError

if TYPE_CHECKING:
    from frazil.config.model import ServerConfig
    from frazil.config.sections.loki import LokiConfig

_PATHS = ("/health", "/status", "/sql")


def address_of(url: str) -> str:
    """Returns the address without known paths such as `/health`."""
    url = (url if "://" in url else f"http://{url}").rstrip("/")
    for path in _PATHS:
        url = url.removesuffix(path)
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        raise ConfigError(f"{url!r} is not an address; --url looks like http://127.0.0.1:8080")
    return url


def default_url(server: ServerConfig | LokiConfig, setting: str = "server.port") -> str:
    """Returns the address at which a Frazil with these settings listens; `setting` names its port."""
    if server.port == 0:
        raise ConfigError(f"{setting} is 0, so the port is only known to the running Frazil; give its --url")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"
