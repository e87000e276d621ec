"""Settings of Loki's API."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.endpoint import CONNECTIONS_TEXT, MAX_CONNECTIONS, Connections, Port, TlsConfig
from frazil.config.sections.section import Section, free_names

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
    """Loki's API: logs are pushed to it."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(3100, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    tls: TlsConfig = Field(TlsConfig(), description="Its TLS.")
    labels: LabelsConfig = Field(LabelsConfig(), description="The labels that queries of every tenant see.")
    tenants: dict[str, TenantLabelsConfig] = Field(
        default_factory=dict, json_schema_extra=free_names("tenant"), description="Labels of single tenants, by name."
    )

    def labels_of(self, tenant: str) -> LabelsConfig:
        if tenant not in self.tenants:
            return self.labels
        return self.labels.model_copy(update=self.tenants[tenant].model_dump(exclude_none=True))
