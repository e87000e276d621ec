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


class LokiQueryConfig(Section):
    """Sets limits of queries in LogQL. `query` has the limits of all queries."""

    max_entries: _Unbounded = Field(5000, description="Most lines that a query may ask for; 0 for no bound.")
    max_series: _Unbounded = Field(500, description="Most series of an answer; 0 for no bound.")
    max_range_hours: _Unbounded = Field(721, description="Longest time that a query may ask for; 0 for no bound.")
    max_volume_series: Positive = Field(1000, description="Most series of `index/volume`.")
    max_tails: _Unbounded = Field(10, description="Clients of one tenant that follow lines (`tail`); 0 for no bound.")
    tenants: dict[str, LokiTenantConfig] = Field(
        default_factory=dict,
        json_schema_extra=free_names("tenant"),
        description="Other limits for some tenants, by name.",
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


INDEX_ATTRIBUTES = (
    "service.name",
    "service.namespace",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "cloud.region",
    "cloud.availability_zone",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.name",
    "k8s.replicaset.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
)
"""Loki makes these attributes of resources labels of streams, unless it is told others."""


class LabelsConfig(Section):
    """Which labels queries see."""

    index_attributes: list[str] = Field(
        list(INDEX_ATTRIBUTES),
        description="The attributes of an OTLP resource that are labels of its stream, by which selectors choose; "
        "dots become underscores. All other attributes are structured metadata.",
    )
    discover_services: bool = Field(
        True, description="Whether a stream without the label `service_name` gets one from its other labels."
    )
    discover_levels: bool = Field(True, description="Whether lines have `detected_level` as structured metadata.")


class TenantLabelsConfig(Section):
    """Which labels queries of a certain tenant see."""

    index_attributes: list[str] | None = Field(
        None, description="As `loki.labels.index_attributes`, for this tenant."
    )
    discover_services: bool | None = Field(None, description="As `loki.labels.discover_services`, for this tenant.")
    discover_levels: bool | None = Field(None, description="As `loki.labels.discover_levels`, for this tenant.")


class LokiConfig(Section):
    """Loki's API: logs are pushed to it, and asked for in LogQL."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(3100, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    tls: TlsConfig = Field(TlsConfig(), description="Its TLS.")
    query: LokiQueryConfig = Field(LokiQueryConfig(), description="Queries in LogQL.")
    labels: LabelsConfig = Field(LabelsConfig(), description="The labels that queries of every tenant see.")
    tenants: dict[str, TenantLabelsConfig] = Field(
        default_factory=dict, json_schema_extra=free_names("tenant"), description="Labels of single tenants, by name."
    )

    def labels_of(self, tenant: str) -> LabelsConfig:
        if tenant not in self.tenants:
            return self.labels
        return self.labels.model_copy(update=self.tenants[tenant].model_dump(exclude_none=True))
