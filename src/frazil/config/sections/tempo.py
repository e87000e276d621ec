"""Settings of Tempo's API."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.endpoint import CONNECTIONS_TEXT, MAX_CONNECTIONS, Connections, Port, TlsConfig
from frazil.config.sections.section import Section


class TempoConfig(Section):
    """Tempo's API: traces are asked for."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(3200, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    tls: TlsConfig = Field(TlsConfig(), description="Its TLS.")
