"""The port of a gRPC server."""

from __future__ import annotations

from typing import Any

import grpc

from frazil.config.endpoint import TlsConfig
from frazil.errors import ConfigError


def open_port(server: Any, host: str, port: int, tls: TlsConfig, *, section: str, port_key: str, rival: str) -> int:
    """Listen, with TLS if there is a certificate; returns the port. `rival` is who else may listen there."""
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
