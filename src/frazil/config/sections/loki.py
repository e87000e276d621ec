"""Settings of Loki's API."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator

from frazil.config.sections.endpoint import CONNECTIONS_TEXT, MAX_CONNECTIONS, Connections, Port, TlsConfig
from frazil.config.sections.section import Positive, Section, free_names, setting_problem
from frazil.config.sections.telemetry import NAME_RULE, is_tenant

_Unbounded = Annotated[int, Field(ge=0)]


class LokiTenantConfig(Section):
    """What differs for the queries of one tenant. Unset keys fall back to `loki.query`."""

    max_entries: _Unbounded | None = Field(None, description="As `loki.query.max_entries`, for this tenant.")
    max_series: _Unbounded | None = Field(None, description="As `loki.query.max_series`, for this tenant.")
    max_range_hours: _Unbounded | None = Field(None, description="As `loki.query.max_range_hours`, for this tenant.")
    max_tails: _Unbounded | None = Field(None, description="As `loki.query.max_tails`, for this tenant.")
    stream_attributes: tuple[str, ...] | None = Field(
        None, description="As `loki.query.stream_attributes`, for this tenant."
    )
    service_labels: tuple[str, ...] | None = Field(
        None, description="As `loki.query.service_labels`, for this tenant."
    )
    detect_levels: bool | None = Field(None, description="As `loki.query.detect_levels`, for this tenant.")


class LokiQueryConfig(Section):
    """Sets limits of queries in LogQL, and what labels are. `query` has the limits of all queries."""

    max_entries: _Unbounded = Field(5000, description="Most lines that a query may ask for; 0 for no bound.")
    max_series: _Unbounded = Field(500, description="Most series of an answer; 0 for no bound.")
    max_range_hours: _Unbounded = Field(721, description="Longest time that a query may ask for; 0 for no bound.")
    max_volume_series: Positive = Field(1000, description="Most series of `index/volume`.")
    max_tails: _Unbounded = Field(10, description="Clients of one tenant that follow lines (`tail`); 0 for no bound.")
    stream_attributes: tuple[str, ...] | None = Field(
        None,
        description="Resource attributes of OTLP that are labels of streams; others are structured metadata. By "
        "default those that Loki takes.",
    )
    service_labels: tuple[str, ...] | None = Field(
        None,
        description="A stream without `service_name` gets the first of these labels that it has. By default those "
        "where Loki looks; with none of them it gets none.",
    )
    detect_levels: bool = Field(True, description="Whether lines have `detected_level`.")
    tenants: dict[str, LokiTenantConfig] = Field(
        default_factory=dict,
        json_schema_extra=free_names("tenant"),
        description="Other settings for some tenants, by name.",
    )

    @field_validator("tenants")
    @classmethod
    def _tenants_can_be(cls, tenants: dict[str, LokiTenantConfig]) -> dict[str, LokiTenantConfig]:
        for name in tenants:
            if not is_tenant(name):
                raise setting_problem(f"cannot be a tenant: {NAME_RULE}", name)
        return tenants

    def of_tenant(self, name: str) -> Self:
        if name not in self.tenants:
            return self
        return self.model_copy(update=self.tenants[name].model_dump(exclude_none=True))


class LokiConfig(Section):
    """Loki's API: logs are pushed to it, and asked for in LogQL."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(3100, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    tls: TlsConfig = Field(TlsConfig(), description="Its TLS.")
    query: LokiQueryConfig = Field(LokiQueryConfig(), description="Queries in LogQL.")
