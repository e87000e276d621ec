"""Settings of one topic, and the defaults of the telemetry topics."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from frazil.config.sections.kafka import FormatConfig
from frazil.config.sections.lake import Amount, DerivedTableConfig, TableConfig
from frazil.config.sections.log import Ack, Sync
from frazil.config.sections.pipeline import TopicPipelineConfig
from frazil.config.sections.section import Positive, Seconds, Section, free_names, setting_problem
from frazil.config.sections.subscriptions import SubscriptionsConfig


class TopicSealConfig(Section):
    """Overrides of `log.seal` for one topic."""

    interval_seconds: Seconds | None = Field(None, description="As `log.seal.interval_seconds`, for this topic.")
    max_mb: Positive | None = Field(None, description="As `log.seal.max_mb`, for this topic.")
    max_rows: Positive | None = Field(None, description="As `log.seal.max_rows`, for this topic.")


class TopicConfig(Section):
    """Sets what one topic does differently. Unset keys fall back to `log`."""

    ack: Ack = Field(
        "local",
        description="When an append is acknowledged: once it is in the local WAL (`local`) or once its segment is "
        "in the object store (`object`, no WAL).",
    )
    sync: Sync | None = Field(None, description="As `log.sync`, for this topic.")
    linger_ms: Positive | None = Field(None, description="As `log.linger_ms`, for this topic.")
    seal: TopicSealConfig = Field(TopicSealConfig(), description="As `log.seal`, for this topic.")
    log_retention_hours: Amount | None = Field(
        None,
        description="Segments that the table has stay in the log, where they are read faster, until they are so old; "
        "by default they go. What the table does not have always stays.",
    )
    log_retention_gb: Amount | None = Field(
        None,
        description="As `log_retention_hours`, by size: the newest segments of the topic stay, up to so many GiB. "
        "With both, those within both stay.",
    )
    format: FormatConfig | None = Field(None, description="As `kafka.format`, for this topic.")
    key_column: str | None = Field(
        None, description="Column that hot lookups by key look at; records from Kafka have their own key."
    )
    tenant_column: str | None = Field(
        None, description="Column that says whose row it is: reads over HTTP see the rows of their own tenant only."
    )
    pipeline: TopicPipelineConfig = Field(TopicPipelineConfig(), description="As `pipeline`, for this topic.")
    subscriptions: SubscriptionsConfig = Field(
        SubscriptionsConfig(), description="Subscriptions of a topic of messages."
    )
    table: TableConfig = Field(TableConfig(), description="The topic's base table.")
    derived: dict[str, DerivedTableConfig] = Field(
        default_factory=dict,
        json_schema_extra=free_names("table"),
        description="Further tables by name, each made by a Spark SQL query.",
    )

    @field_validator("derived")
    @classmethod
    def _derived_names_are_names(cls, derived: dict[str, DerivedTableConfig]) -> dict[str, DerivedTableConfig]:
        for name in derived:
            if not re.fullmatch(r"\w[\w-]*", name):
                raise setting_problem("cannot be a table: use letters, digits, underscores and dashes", name)
        return derived


TOPIC_DEFAULTS = TopicConfig()


_SMALL_ROW_GROUPS = {
    # A query for one series reads a whole row group, which has 100,000 to 150,000 points at this size. With smaller
    # ones the statistics in the footer would weigh too much.
    "write.parquet.row-group-size-bytes": str(48 * 1024 * 1024),
    # The size counts bytes before compression, as our own writer does. Spark would count them after compression,
    # and compaction would make one row group of millions of points.
    "write.parquet.row-group-size-track-uncompressed": "true",
}

_ROW_GROUPS_OF_LOGS = {
    # A query for one service decodes whole row groups. At this size one has about as many lines as a scan reads at
    # a time, and few other services.
    "write.parquet.row-group-size-bytes": str(24 * 1024 * 1024),
    "write.parquet.row-group-size-track-uncompressed": "true",
}


def _telemetry(*sort_by: str, properties: dict[str, str] | None = None) -> TopicConfig:
    layout = TableConfig(
        partition_by=["tenant_id", "day(timestamp)"], sort_by=list(sort_by), properties=properties or {}
    )
    return TopicConfig(tenant_column="tenant_id", table=layout)


TELEMETRY_TOPICS = {
    "logs": _telemetry("service_name", "timestamp", properties=_ROW_GROUPS_OF_LOGS),
    "spans": _telemetry("trace_id", "timestamp"),
    "metrics": _telemetry("prometheus_name", "series_id", "timestamp", properties=_SMALL_ROW_GROUPS),
}
"""Settings of the topics of the doors for telemetry, unless the file says otherwise."""


def merge_topic_settings(defaults: TopicConfig, given: TopicConfig) -> TopicConfig:
    """Returns the settings that are given, and the defaults where none are given.

    The tenant column is always the default, because only that column tells whose row it is.
    """
    kept = {name: getattr(given.table, name) for name in given.table.model_fields_set}
    properties = defaults.table.properties | given.table.properties
    table = defaults.table.model_copy(update={**kept, "properties": properties})
    return given.model_copy(update={"table": table, "tenant_column": defaults.tenant_column})
