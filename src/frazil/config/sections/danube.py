"""Settings of the door for Danube's protocol."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.endpoint import CONNECTIONS_TEXT, MAX_CONNECTIONS, Connections, Port, TlsConfig
from frazil.config.sections.section import Section


class DanubeConfig(Section):
    """Danube's protocol: its clients produce to topics and subscribe to them."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(6650, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    advertised_url: str | None = Field(
        None,
        description="Where clients reach this process, if not at its host and port: `http://HOST:PORT`, or `https:`.",
    )
    tls: TlsConfig = Field(TlsConfig(), description="Its TLS.")
