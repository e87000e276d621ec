"""Settings of the OTLP door."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from frazil.config.section import Positive, Section, problem


class TlsConfig(Section):
    """Certificate and key, as PEM files; without them connections are not encrypted."""

    cert: Path | None = Field(None, description="File with the certificate, and those that it was signed with.")
    key: Path | None = Field(None, description="File with its key.")

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if (self.cert is None) != (self.key is None):
            present, absent = ("cert", "key") if self.key is None else ("key", "cert")
            raise problem(f"needs {absent} too", present)
        return self


class OtlpEndpointConfig(Section):
    """Where one protocol is served."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(0, description="Port; 0 takes a free one.")


class OtlpLimitsConfig(Section):
    """What one tenant may send."""

    max_record_kb: Positive = Field(
        1024, description="Largest record, in KiB, as the log holds it. Larger ones are rejected."
    )
    max_attributes: Positive = Field(256, description="Most attributes of a record. One with more is rejected.")
    rate_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Most MiB a second, after decompression; more is told to come later. No bound by default."
    )
    burst_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="What may come at once beyond that; by default the MiB of one second."
    )


class OtlpConfig(Section):
    """The OTLP door: logs, traces and metrics of OpenTelemetry."""

    enabled: bool = Field(True, description="Whether to open it.")
    http: OtlpEndpointConfig = Field(OtlpEndpointConfig(port=4318), description="OTLP over HTTP.")
    grpc: OtlpEndpointConfig = Field(OtlpEndpointConfig(port=4317), description="OTLP over gRPC.")
    tls: TlsConfig = Field(TlsConfig(), description="TLS of both.")
    max_body_mb: Positive = Field(64, description="Largest request, in MiB, after decompression.")
    max_in_flight_mb: Positive = Field(
        256, description="Most MiB of requests that are worked on at once; others are told to come later."
    )
    deduplicate: Literal["timed", "always", "never"] = Field(
        "timed",
        description="Whether a request that comes again, byte for byte, is stored once: `timed` if all its records "
        "have a time of their own. Remembered for `log.sources.request_ttl_seconds`.",
    )
    limits: OtlpLimitsConfig = Field(OtlpLimitsConfig(), description="Of every tenant.")
