"""Opens the port of a gRPC server, and limits its connections."""

from __future__ import annotations

from typing import Any

import grpc

from frazil.config.sections.endpoint import TlsConfig
from frazil.errors import ConfigError
from frazil.web.grpc.log_filter import quieten

HANDSHAKE_SECONDS = 30
"""This is how long a client may take until it speaks gRPC."""
IDLE_SECONDS = 300
"""This is how long a connection may stay without a call; clients open another when they need one."""
MOST_CALLS = 1000
"""The most calls of one connection at a time; further calls wait at the client."""


def connection_options(max_connections: int) -> list[tuple[str, int]]:
    """Returns the options that limit the connections of a server. gRPC closes those beyond the limit at once."""
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_allowed_incoming_connections", max_connections),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
        ("grpc.max_connection_idle_ms", IDLE_SECONDS * 1000),
        ("grpc.max_concurrent_streams", MOST_CALLS),
    ]


def open_port(server: Any, host: str, port: int, tls: TlsConfig, *, section: str, port_key: str, rival: str) -> int:
    """Listens, with TLS if there is a certificate, and returns the port. `rival` names what else may listen there."""
    quieten()
    address = f"{host}:{port}"
    try:
        if tls.cert is None or tls.key is None:
            found: int = server.add_insecure_port(address)
        else:
            pair = (tls.key.read_bytes(), tls.cert.read_bytes())
            found = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except OSError as error:
        raise ConfigError(f"{section}.tls: {error}.") from error
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on {address}: the port is in use, perhaps by another Frazil or by {rival}; stop that, "
            f"choose another with {port_key} (0 takes a free one), or set {section}.enabled to false"
        ) from error
    return found
