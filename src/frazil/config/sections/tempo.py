"""Settings of Tempo's API."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.endpoint import (
    CONNECTIONS_TEXT,
    MAX_CONNECTIONS,
    Connections,
    EndpointConfig,
    Port,
    TlsConfig,
)
from frazil.config.sections.section import Positive, Section


class TempoConfig(Section):
    """Tempo's API: traces are asked for."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(3200, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    grpc: EndpointConfig = Field(EndpointConfig(port=9095), description="Its streaming API, over gRPC.")
    tls: TlsConfig = Field(TlsConfig(), description="TLS of both.")
    max_trace_mb: Positive = Field(
        16,
        description="Largest trace that is returned by its id, in MiB as its spans are in memory. Of a larger one "
        "`/api/v2/traces` returns a part that says so, and `/api/traces` a 422.",
    )
    max_trace_files: Positive = Field(
        1000,
        description="Most files of the table in which a trace is looked for by its id, newest first, when no time is "
        "given.",
    )
