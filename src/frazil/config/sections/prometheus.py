"""Settings of Prometheus's API."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.endpoint import CONNECTIONS_TEXT, MAX_CONNECTIONS, Connections, Port, TlsConfig
from frazil.config.sections.section import Positive, Seconds, Section


class PromqlConfig(Section):
    """How queries in PromQL are evaluated. Their time and memory are limited by `query`."""

    lookback_seconds: Seconds = Field(
        300.0, description="How old the newest sample of a series may be to stand for it, in seconds."
    )
    subquery_step_seconds: Seconds = Field(60.0, description="The step of subqueries that name none, in seconds.")
    max_samples: Positive = Field(50_000_000, description="Most samples that a query may load.")
    experimental_functions: bool = Field(
        True, description="Whether functions and aggregations may be used that Prometheus calls experimental."
    )
    delayed_name_removal: bool = Field(
        False,
        description="Whether metric names are dropped at the very end of a query only, as Prometheus does with "
        "`promql-delayed-name-removal`.",
    )
    start_timestamps: bool = Field(
        False,
        description="Whether the time at which a counter began shows resets, as in Prometheus with "
        "`use-start-timestamps`.",
    )
    promote_resource_attributes: list[str] = Field(
        default_factory=list,
        description="Resource attributes of OTLP that become labels of all series, besides `job` and `instance`.",
    )


class PrometheusConfig(Section):
    """Prometheus's API: samples are written to it, and queries in PromQL read them."""

    enabled: bool = Field(True, description="Whether to serve it.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(9090, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    tls: TlsConfig = Field(TlsConfig(), description="Its TLS.")
    queries: PromqlConfig = Field(PromqlConfig(), description="Queries in PromQL.")
