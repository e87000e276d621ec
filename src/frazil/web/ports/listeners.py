"""Lists where a process listens by its settings, and checks addresses, ports and TLS before anybody listens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from frazil.config.model import Config
from frazil.config.sections.endpoint import TlsConfig
from frazil.errors import ConfigError
from frazil.web.ports.contributions import LOKI, OPERATIONS, OTLP, PROMETHEUS, TEMPO
from frazil.web.tls import check_tls

_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True)
class Listener:
    """Is one address on which a process may listen."""

    port_name: str
    section: str
    """Names the settings of the address."""
    host: str
    port: int
    max_connections: int
    tls: TlsConfig
    tls_section: str


def listeners(config: Config) -> list[Listener]:
    """Returns the addresses of all enabled servers. Those of gRPC have names that no HTTP endpoint can have."""
    server, otlp = config.server, config.otlp
    found = [Listener(OPERATIONS, "server", server.host, server.port, server.max_connections, TlsConfig(), "")]
    if otlp.enabled:
        for name, section, at in ((OTLP, "otlp.http", otlp.http), ("otlp grpc", "otlp.grpc", otlp.grpc)):
            found.append(Listener(name, section, at.host, at.port, at.max_connections, otlp.tls, "otlp.tls"))
    apis = ((LOKI, config.loki), (PROMETHEUS, config.prometheus), (TEMPO, config.tempo), ("danube", config.danube))
    for name, api in apis:
        if api.enabled:
            found.append(Listener(name, name, api.host, api.port, api.max_connections, api.tls, f"{name}.tls"))
    if config.tempo.enabled:
        at, tls = config.tempo.grpc, config.tempo.tls
        found.append(Listener("tempo grpc", "tempo.grpc", at.host, at.port, at.max_connections, tls, "tempo.tls"))
    return found


def check_settings(config: Config) -> None:
    """Raises `ConfigError` for what is wrong with the settings of the ports, as far as that can be known without
    listening."""
    given = listeners(config)
    for each in given:
        check_tls(each.tls, each.tls_section)
    for one, other in combinations(given, 2):
        shared = one.host == other.host or one.host in _EVERYWHERE or other.host in _EVERYWHERE
        if one.port == other.port != 0 and shared:
            raise ConfigError(
                f"{other.section}.port: {other.port} is that of {one.section} already; each listens on one of its own"
            )
