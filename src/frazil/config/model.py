"""Defines every setting of Frazil, with its type, its default and its meaning.

`docs/configuration.md` is generated from these classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from frazil.config.invocation import Invocation
from frazil.config.sections.danube import DanubeConfig
from frazil.config.sections.endpoint import CONNECTIONS_TEXT, MAX_CONNECTIONS, Connections, Port
from frazil.config.sections.kafka import REGISTRY_FORMATS, BufferConfig, FormatConfig, KafkaConfig
from frazil.config.sections.lake import (
    NEEDS_RETENTION_COLUMN,
    IcebergConfig,
    LakeConfig,
    TableLayoutConfig,
    compression_level_problem,
)
from frazil.config.sections.log import LogConfig, StoreConfig
from frazil.config.sections.loki import LokiConfig
from frazil.config.sections.maintenance import MaintenanceConfig
from frazil.config.sections.messages import MessagesConfig
from frazil.config.sections.otlp import OtlpConfig
from frazil.config.sections.pipeline import PipelineConfig
from frazil.config.sections.prometheus import PrometheusConfig
from frazil.config.sections.query import QueryConfig
from frazil.config.sections.section import Positive, Seconds, Section, free_names, setting_problem
from frazil.config.sections.telemetry import TelemetryConfig
from frazil.config.sections.tempo import TempoConfig
from frazil.config.sections.topics import TELEMETRY_TOPICS, TOPIC_DEFAULTS, TopicConfig, merge_topic_settings


class SqlConfig(Section):
    """Limits of one SQL query."""

    timeout_seconds: Seconds = Field(60.0, description="Longest time of a query.")
    max_memory_mb: Positive = Field(1024, description="Most memory of a query, in MiB.")
    max_rows: Positive = Field(100_000, description="Most rows of a result; more are an error.")
    max_concurrent: Positive = Field(4, description="Queries at a time; others wait, within their time.")


DEAD_LETTER = "__dead_letter"
"""The name of a dead-letter table is that of its base table followed by this."""


class ServerConfig(Section):
    """The operations endpoint: health, readiness, metrics."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Port = Field(8080, description="Port; 0 takes a free one.")
    max_connections: Connections = Field(MAX_CONNECTIONS, description=CONNECTIONS_TEXT)
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="More names under which this process is reached, and whose web pages may send it requests: a "
        "name, `*.` with a domain, or `*` for any. Addresses and names outside of public DNS need not be told.",
    )
    shutdown_timeout_seconds: Seconds = Field(30.0, description="Longest time of a clean stop.")


class LoggingConfig(Section):
    """The log output of Frazil itself."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is shown.")
    format: Literal["auto", "human", "json"] = Field(
        "auto", description="`auto` is human-readable on a terminal and JSON lines otherwise."
    )


class Config(Section):
    """All settings."""

    data_dir: Path = Field(Path("data"), description="Folder of the WAL and, by default, of the store.")
    node: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] | None = Field(
        None,
        description="Lasting name of this machine, unique among those that share the store. With it, a machine "
        "that lost its disk goes on in its partitions; without it, it starts new ones.",
    )
    log: LogConfig = Field(LogConfig(), description="The durable log.")
    store: StoreConfig = Field(StoreConfig(), description="The object store.")
    lake: LakeConfig = Field(LakeConfig(), description="Catalog and warehouse.")
    pipeline: PipelineConfig = Field(PipelineConfig(), description="The Spark pipeline.")
    kafka: KafkaConfig = Field(KafkaConfig(), description="The Kafka door.")
    telemetry: TelemetryConfig = Field(TelemetryConfig(), description="What the doors for telemetry share.")
    otlp: OtlpConfig = Field(OtlpConfig(), description="The OTLP door.")
    loki: LokiConfig = Field(LokiConfig(), description="Loki's API.")
    prometheus: PrometheusConfig = Field(PrometheusConfig(), description="Prometheus's API.")
    tempo: TempoConfig = Field(TempoConfig(), description="Tempo's API.")
    messages: MessagesConfig = Field(MessagesConfig(), description="Topics of messages.")
    danube: DanubeConfig = Field(DanubeConfig(), description="Danube's protocol.")
    buffer: BufferConfig = Field(BufferConfig(), description="The hot buffer.")
    iceberg: IcebergConfig = Field(IcebergConfig(), description="Defaults of tables.")
    query: QueryConfig = Field(QueryConfig(), description="Processes for queries, and limits of a query.")
    sql: SqlConfig = Field(SqlConfig(), description="SQL queries.")
    maintenance: MaintenanceConfig = Field(MaintenanceConfig(), description="Maintenance of tables and log.")
    topics: dict[str, TopicConfig] = Field(
        default_factory=dict, json_schema_extra=free_names("topic"), description="Settings by topic name."
    )
    server: ServerConfig = Field(ServerConfig(), description="The operations endpoint.")
    logging: LoggingConfig = Field(LoggingConfig(), description="Log output.")

    _invocation: Invocation = PrivateAttr(default_factory=Invocation)

    def command(self, *arguments: str) -> str:
        """Returns a line for a shell that runs `frazil` with these settings."""
        return self._invocation.line(self.data_dir, *arguments)

    def invoked(self, invocation: Invocation) -> Self:
        """Remembers how the settings were given, and returns them."""
        self._invocation = invocation
        return self

    def topic(self, name: str) -> TopicConfig:
        given = self.topics.get(name, TOPIC_DEFAULTS)
        return merge_topic_settings(TELEMETRY_TOPICS[name], given) if self.is_telemetry(name) else given

    def is_telemetry(self, topic: str) -> bool:
        """Returns whether a topic belongs to the doors for telemetry, so that nobody else may use it."""
        return topic in TELEMETRY_TOPICS and self.takes_telemetry

    @property
    def takes_telemetry(self) -> bool:
        return self.otlp.enabled or self.loki.enabled or self.prometheus.enabled

    def base_table(self, topic: str) -> str:
        """Returns the name of a topic's base table, with the namespace.

        One dot in a topic stands between namespace and name. More dots become underscores, as do those of topics from
        Kafka, where they mean nothing.
        """
        name = self.topic(topic).table.name or self._own_table(topic)
        return name if "." in name else f"{self.lake.namespace}.{name}"

    def tables(self, topic: str) -> set[str]:
        """Returns the names of all tables that a topic may have, with the namespace."""
        base = self.base_table(topic)
        namespace = base.rpartition(".")[0]
        return {base, base + DEAD_LETTER, *(f"{namespace}.{name}" for name in self.topic(topic).derived)}

    def _own_table(self, topic: str) -> str:
        namespace, _, name = topic.partition(".")
        parted = bool(namespace and name) and "." not in name
        return topic if parted and topic not in self.kafka.topics else topic.replace(".", "_")

    def format_of(self, topic: str) -> FormatConfig:
        """Returns the format by which records of a topic from Kafka are decoded."""
        return self.topic(topic).format or self.kafka.format

    @model_validator(mode="after")
    def _kafka_is_whole(self) -> Self:
        if self.kafka.topics and not self.kafka.bootstrap_servers:
            raise setting_problem("needs kafka.bootstrap_servers, the brokers that have them", "kafka", "topics")
        if self.kafka.bootstrap_servers and not self.kafka.topics:
            raise setting_problem("needs kafka.topics, the topics to read from them", "kafka", "bootstrap_servers")
        for name in filter(self.is_telemetry, self.kafka.topics):
            raise setting_problem(
                f"{name} is a topic of the doors for telemetry; leave it out, or set otlp.enabled, loki.enabled and "
                f"prometheus.enabled to false",
                "kafka",
                "topics",
            )
        return self

    @model_validator(mode="after")
    def _queries_end_before_their_files(self) -> Self:
        """A query reads files that maintenance deletes when the grace time is over."""
        times: dict[tuple[str, ...], float | None] = {
            ("query", "timeout_seconds"): self.query.timeout_seconds,
            ("sql", "timeout_seconds"): self.sql.timeout_seconds,
        }
        times |= {
            ("query", "tenants", name, "timeout_seconds"): limits.timeout_seconds
            for name, limits in self.query.tenants.items()
        }
        for key, seconds in times.items():
            if seconds is not None and seconds >= self.log.trim_grace_seconds:
                raise setting_problem(
                    f"{seconds:g} is not less than log.trim_grace_seconds ({self.log.trim_grace_seconds:g}), after "
                    f"which files may be deleted that the query still reads",
                    *key,
                )
        return self

    @model_validator(mode="after")
    def _formats_have_their_registry(self) -> Self:
        formats: dict[tuple[str, ...], FormatConfig] = {("kafka", "format"): self.kafka.format}
        for topic, settings in self.topics.items():
            if settings.format is not None:
                formats["topics", topic, "format"] = settings.format
        for key, chosen in formats.items():
            for part, kind in (("value", chosen.value), ("key", chosen.key)):
                if kind in REGISTRY_FORMATS and self.kafka.registry.url is None:
                    raise setting_problem(f"{kind} needs kafka.registry.url, the schema registry", *key, part)
        return self

    @model_validator(mode="after")
    def _ages_can_be_told(self) -> Self:
        """Retention needs a column that tells the age of rows; only topics of messages have one by default."""
        for topic, settings in self.topics.items():
            limited = settings.table.retention
            if limited is None or settings.table.retention_column is not None:
                continue
            if topic in self.kafka.topics or self.is_telemetry(topic):
                raise setting_problem(NEEDS_RETENTION_COLUMN, "topics", topic, "table", limited)
        return self

    @model_validator(mode="after")
    def _levels_fit_compressions(self) -> Self:
        for topic, settings in self.topics.items():
            layouts: dict[tuple[str, ...], TableLayoutConfig] = {("table",): settings.table}
            layouts |= {("derived", name): derived for name, derived in settings.derived.items()}
            for key, layout in layouts.items():
                wrong = compression_level_problem(
                    layout.compression or self.iceberg.compression, layout.compression_level
                )
                if wrong:
                    raise setting_problem(wrong, "topics", topic, *key, "compression_level")
        return self

    @model_validator(mode="after")
    def _one_feeder_per_table(self) -> Self:
        """Two topics that commit to one table would stop each other at every batch."""
        seen: dict[str, str] = {}
        for topic, settings in self.topics.items():
            base = self.base_table(topic)
            fed: dict[tuple[str, ...], str] = {("topics", topic, "table"): base}
            for each in settings.derived:
                fed["topics", topic, "derived", each] = f"{base.rpartition('.')[0]}.{each}"
            for key, table in fed.items():
                if table in seen:
                    raise setting_problem(
                        f"is the table {table}, but so is {seen[table]}; give one another name", *key
                    )
                seen[table] = ".".join(key)
        return self
