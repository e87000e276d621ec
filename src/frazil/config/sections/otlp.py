"""Settings of the OTLP door."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.endpoint import EndpointConfig, TlsConfig
from frazil.config.sections.section import Section


class OtlpConfig(Section):
    """The OTLP door: logs, traces and metrics of OpenTelemetry."""

    enabled: bool = Field(True, description="Whether to open it.")
    http: EndpointConfig = Field(EndpointConfig(port=4318), description="OTLP over HTTP.")
    grpc: EndpointConfig = Field(EndpointConfig(port=4317), description="OTLP over gRPC.")
    tls: TlsConfig = Field(TlsConfig(), description="TLS of both.")
