"""Checks addresses, ports and TLS of the doors before they listen."""

from __future__ import annotations

from itertools import combinations

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.web.tls import check_tls

_EVERYWHERE = ("", "0.0.0.0", "::")
_ListenAddress = tuple[str, str, int]
"""The section of the settings, the host and the port."""


def check_settings(config: Config) -> None:
    """Raises `ConfigError` for what is wrong with the settings of the doors, as far as that can be known without
    listening."""
    if config.otlp.enabled:
        check_tls(config.otlp.tls, "otlp.tls")
    if config.loki.enabled:
        check_tls(config.loki.tls, "loki.tls")
    if config.prometheus.enabled:
        check_tls(config.prometheus.tls, "prometheus.tls")
    if config.danube.enabled:
        check_tls(config.danube.tls, "danube.tls")
    for (section, host, port), (other, other_host, other_port) in combinations(_listen_addresses(config), 2):
        shared = host == other_host or host in _EVERYWHERE or other_host in _EVERYWHERE
        if port == other_port != 0 and shared:
            raise ConfigError(f"{other}.port: {port} is that of {section} already; each listens on one of its own")


def _listen_addresses(config: Config) -> list[_ListenAddress]:
    """Returns the addresses of all enabled servers."""
    places: list[_ListenAddress] = [("server", config.server.host, config.server.port)]
    if config.otlp.enabled:
        places.append(("otlp.http", config.otlp.http.host, config.otlp.http.port))
        places.append(("otlp.grpc", config.otlp.grpc.host, config.otlp.grpc.port))
    if config.loki.enabled:
        places.append(("loki", config.loki.host, config.loki.port))
    if config.prometheus.enabled:
        places.append(("prometheus", config.prometheus.host, config.prometheus.port))
    if config.danube.enabled:
        places.append(("danube", config.danube.host, config.danube.port))
    return places
