"""Every setting of Frazil, with its type, its default and its meaning.

`docs/configuration.md` is generated from these classes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

Sync = Literal["always", "periodic", "none"]
Ack = Literal["local", "object"]

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MIB = 1024 * 1024


def _as_text(value: object) -> object:
    """Numbers and booleans as Spark, Iceberg and object stores spell them in their settings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


FreeText = Annotated[str, BeforeValidator(_as_text)]
"""A value of a map whose names are somebody else's."""


def names(placeholder: str, *, spelling: str = "", secrets: bool = False) -> dict[str, Any]:
    """What a map from free names says of them.

    `placeholder` stands for a name in the reference. `spelling` is how a variable's underscores are read when the
    file does not mention the name (see `environment`). With `secrets`, names that sound like a secret have one.
    """
    return {"placeholder": placeholder, "spelling": spelling, "secrets": secrets}


def problem(text: str, *key: str) -> PydanticCustomError:
    """Something that is wrong with a key although its value alone would be right."""
    return PydanticCustomError("setting", "{text}", {"key": key, "text": text})


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SealConfig(Section):
    """When the tail becomes a segment: whichever of these comes first."""

    interval_seconds: Seconds = Field(10.0, description="Age of the oldest record in the tail.")
    max_mb: Positive = Field(64, description="Size of the tail in MiB.")
    max_rows: Positive = Field(1_000_000, description="Number of records in the tail.")


class SourcesConfig(Section):
    """What the log remembers of those who feed it, so that a repeated append is stored once."""

    ttl_seconds: Seconds = Field(
        86_400.0, description="How long a silent producer's sequence is remembered, in seconds."
    )
    max_producers: Positive = Field(10_000, description="Most producers remembered per partition.")
    request_ttl_seconds: Seconds = Field(
        300.0, description="How long the hash of a request is remembered, in seconds."
    )
    max_requests: Positive = Field(65_536, description="Most request hashes remembered per partition.")


class LogConfig(Section):
    """The durable log that every door appends to."""

    sync: Sync = Field(
        "periodic",
        description="When a WAL write reaches the disk: before every acknowledgement (`always`, shared by all "
        "who wait), on a timer (`periodic`), or when the system likes (`none`).",
    )
    sync_interval_ms: Positive = Field(100, description="Period of the timer of `sync: periodic`.")
    max_file_size_mb: Positive = Field(64, description="Size at which a WAL file is rotated, in MiB.")
    max_append_mb: Annotated[int, Field(gt=0, le=1024)] = Field(
        32, description="Largest single append, in MiB; a larger one is refused."
    )
    max_tail_mb: Positive = Field(
        256, description="Most unsealed data per partition, in MiB; appends wait while it is full."
    )
    append_timeout_seconds: Seconds = Field(
        10.0, description="How long an append waits for room in the tail before it fails with `LogFull`."
    )
    linger_ms: Positive = Field(
        200, description="How long appends with `ack: object` are gathered before they are put."
    )
    seal: SealConfig = Field(SealConfig(), description="When the tail becomes a segment.")
    compression_level: Annotated[int, Field(ge=1, le=19)] = Field(
        1, description="zstd level of segments; they are short-lived, so speed matters more than size."
    )
    trim_grace_seconds: Seconds = Field(
        3600.0,
        description="How long a segment outlives the moment it is no longer needed; longer than the longest query.",
    )
    sources: SourcesConfig = Field(SourcesConfig(), description="Memory for repeated appends.")


class StoreConfig(Section):
    """Where segments go: a local folder or an object store."""

    url: str | None = Field(
        None,
        description="`s3://bucket/prefix`, `gs://…`, `az://…` or a folder. By default `store` inside `data_dir`.",
    )
    options: dict[str, FreeText] = Field(
        default_factory=dict,
        repr=False,
        json_schema_extra=names("option", secrets=True),
        description="Settings of the store by the names of the `obstore` package, e.g. `endpoint`, `region`, "
        "`virtual_hosted_style_request`.",
    )
    access_key_id: str | None = Field(None, description="Name of the key (S3: access key id; Azure: account).")
    secret_access_key: SecretStr | None = Field(None, description="The secret that belongs to it.")
    session_token: SecretStr | None = Field(None, description="Token of temporary credentials.")
    timeout_seconds: Seconds = Field(30.0, description="Longest time of one request.")


class LakeConfig(Section):
    """The Iceberg catalog and warehouse that tables live in."""

    catalog: str | None = Field(
        None,
        description="Name of the catalog in PyIceberg's own settings (`.pyiceberg.yaml`, `PYICEBERG_*`), which are "
        "used as they are; by default PyIceberg's default catalog.",
    )
    properties: dict[str, FreeText] = Field(
        default_factory=dict,
        repr=False,
        json_schema_extra=names("property", spelling="iceberg", secrets=True),
        description="Settings of the catalog by PyIceberg's names (`type`, `uri`, `warehouse`, `s3.endpoint`, …); "
        "they win over PyIceberg's own files. Without any, the catalog is an SQLite file in `data_dir` and the "
        "warehouse a folder of the store.",
    )
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")] = Field(
        "frazil", description="Namespace of tables whose topic does not name one."
    )
    timeout_seconds: Seconds = Field(30.0, description="Longest time of one request to the catalog.")


Compression = Literal["zstd", "snappy", "lz4", "gzip", "none"]


class TableLayoutConfig(Section):
    """How a table's files are laid out, which is applied when the table is made, and how long its rows stay."""

    partition_by: list[str] = Field(
        default_factory=list,
        description="Partition fields: a column, or `year(c)`, `month(c)`, `day(c)`, `hour(c)`, `bucket(n, c)`, "
        "`truncate(n, c)`, `void(c)`.",
    )
    sort_by: list[str] = Field(
        default_factory=list,
        description="Sort order within files: a field as in `partition_by`, then perhaps `asc` or `desc`, and `nulls "
        "first` or `nulls last`.",
    )
    compression: Compression | None = Field(None, description="As `iceberg.compression`, for this table.")
    compression_level: Annotated[int, Field(ge=1, le=22)] | None = Field(
        None, description="Level of `zstd` (1 to 22, by default 3) or `gzip` (1 to 9)."
    )
    target_file_size_mb: Positive | None = Field(
        None, description="As `iceberg.target_file_size_mb`, for this table."
    )
    properties: dict[str, FreeText] = Field(
        default_factory=dict,
        json_schema_extra=names("property", spelling="iceberg"),
        description="Further Iceberg table properties, as they are.",
    )
    retention_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None,
        description="Rows older than this are dropped from the table; by default none are. That of a base table is "
        "also that of the topic's dead letters, by `failed_at`.",
    )
    retention_column: str | None = Field(
        None, description="Date or timestamp column that tells the age of a row; needed by `retention_days`."
    )

    @model_validator(mode="after")
    def _retention_has_its_column(self) -> Self:
        if self.retention_days is not None and self.retention_column is None:
            raise problem("needs retention_column, the column that tells how old a row is", "retention_days")
        return self


class DerivedTableConfig(TableLayoutConfig):
    """A table made from a topic by a Spark SQL query."""

    sql: str = Field(
        description="The query; its input is the view `batch`, e.g. `SELECT id, upper(name) FROM batch`."
    )
    backfill: bool = Field(
        False, description="Whether it begins with what the base table has already, or with what comes next."
    )


class TableConfig(TableLayoutConfig):
    """The base table of a topic."""

    name: str | None = Field(
        None, description="Name of the table with its namespace; by default the topic's, in `lake.namespace`."
    )
    adopt: bool = Field(
        False, description="Whether a table of that name that Frazil did not create is used, if its schema fits."
    )


class RetryConfig(Section):
    """Waiting between tries: `min(max_delay, base_delay × 2^attempt)` and up to a tenth more, by chance."""

    base_delay_ms: Positive = Field(100, description="First delay.")
    max_delay_seconds: Seconds = Field(30.0, description="Longest delay.")
    max_attempts: Positive = Field(10, description="Tries before a failure is reported and the work starts over.")


class BreakerConfig(Section):
    """The circuit breakers around catalog and object store."""

    failure_threshold: Positive = Field(5, description="Failures in a row that open the circuit.")
    reset_timeout_seconds: Seconds = Field(30.0, description="How long it stays open before one call may try again.")
    success_threshold: Positive = Field(2, description="Successes in a row that close it.")


class TransactionLogConfig(Section):
    """The pipeline's own account of what it did, in `txlog` inside `data_dir`."""

    checkpoint_interval_entries: Positive = Field(10_000, description="Entries between two checkpoints.")
    checkpoint_interval_seconds: Seconds = Field(300.0, description="Longest time between two checkpoints.")
    max_file_size_mb: Positive = Field(16, description="Size at which a file is rotated, in MiB.")
    max_log_files: Positive = Field(10, description="Files kept; older ones go once a checkpoint has replaced them.")


class PipelineConfig(Section):
    """The Spark pipeline that moves the log into tables. A batch ends at whichever of its limits comes first."""

    enabled: bool = Field(True, description="Whether `frazil serve` runs a pipeline.")
    flush_interval_seconds: Seconds = Field(10.0, description="How long sealed records wait for a batch to fill.")
    max_size_mb: Positive = Field(256, description="Size of a batch: the bytes of its segments, in MiB.")
    flush_batch_size: Positive = Field(2_000_000, description="Records in a batch.")
    poll_interval_ms: Positive = Field(1000, description="How often new segments are looked for.")
    spark: dict[str, FreeText] = Field(
        default_factory=dict,
        repr=False,
        json_schema_extra=names("setting", spelling="spark", secrets=True),
        description="Settings of the Spark session by their own names, e.g. `spark.master`, `spark.driver.memory`.",
    )
    retry: RetryConfig = Field(RetryConfig(), description="Waiting between tries.")
    breaker: BreakerConfig = Field(BreakerConfig(), description="Circuit breakers.")
    txlog: TransactionLogConfig = Field(TransactionLogConfig(), description="The transaction log.")

    @field_validator("spark")
    @classmethod
    def _names_are_of_spark(cls, spark: dict[str, str]) -> dict[str, str]:
        for name in spark:
            if not name.startswith("spark."):
                raise problem(f"Spark's settings begin with `spark.`; did you mean spark.{name}?", name)
        return spark


class TopicPipelineConfig(Section):
    """As `pipeline`, for one topic."""

    flush_interval_seconds: Seconds | None = Field(None, description="As `pipeline.flush_interval_seconds`.")
    max_size_mb: Positive | None = Field(None, description="As `pipeline.max_size_mb`.")
    flush_batch_size: Positive | None = Field(None, description="As `pipeline.flush_batch_size`.")


class CompactionConfig(Section):
    """Joining small data files into large ones."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(3600.0, description="Time between two runs.")
    strategy: Literal["auto", "binpack", "sort"] = Field(
        "auto", description="`sort` orders rows anew; `auto` does so where the table has a sort order."
    )
    min_input_files: Annotated[int, Field(ge=2)] = Field(
        5, description="Small files in one place that make it worth it."
    )


class ManifestsConfig(Section):
    """Joining small manifests."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(3600.0, description="Time between two runs.")
    min_input_manifests: Annotated[int, Field(ge=2)] = Field(20, description="Manifests that make it worth it.")


class ExpiryConfig(Section):
    """Forgetting old snapshots, and deleting the files that only they need."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(300.0, description="Time between two runs.")
    max_age_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        120.0, description="Snapshots younger than this are kept."
    )
    keep_last: Positive = Field(20, description="Newest snapshots that are always kept.")
    max_snapshots: Positive = Field(
        100,
        description="Most snapshots kept, however young: every commit writes them all down again in the table's "
        "metadata.",
    )


class OrphansConfig(Section):
    """Deleting files that no snapshot refers to."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(86_400.0, description="Time between two runs.")
    older_than_hours: Annotated[float, Field(ge=24, allow_inf_nan=False)] = Field(
        72.0, description="Files younger than this are left alone: a commit may still need them. At least 24."
    )


class ScheduledConfig(Section):
    """Whether and how often something runs."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(3600.0, description="Time between two runs.")


class MaintenanceConfig(Section):
    """What keeps tables and log small and quick; it runs inside the pipeline."""

    enabled: bool = Field(True, description="Whether anything runs by itself; `frazil maintain` works in any case.")
    compaction: CompactionConfig = Field(CompactionConfig(), description="Small data files.")
    manifests: ManifestsConfig = Field(ManifestsConfig(), description="Small manifests.")
    expiry: ExpiryConfig = Field(ExpiryConfig(), description="Old snapshots.")
    orphans: OrphansConfig = Field(OrphansConfig(), description="Files that belong to nothing.")
    retention: ScheduledConfig = Field(ScheduledConfig(), description="Rows past `retention_days` of their table.")
    trim: ScheduledConfig = Field(
        ScheduledConfig(interval_seconds=60.0), description="Segments that are in the tables."
    )


Format = Literal["raw", "string", "json", "avro", "protobuf", "json_schema"]
REGISTERED: frozenset[Format] = frozenset({"avro", "protobuf", "json_schema"})
"""Formats whose schemas are in a registry."""
SubjectStrategy = Literal["topic_name", "record_name", "topic_record_name"]


class FormatConfig(Section):
    """How keys and values of Kafka records are decoded."""

    value: Format = Field(
        "raw",
        description="`raw` bytes, `string` (UTF-8), `json` without a registry, or `avro`, `protobuf` and "
        "`json_schema` in the wire format of a schema registry.",
    )
    key: Format = Field("raw", description="As `value`, for the key.")
    columns: dict[str, str] = Field(
        default_factory=dict,
        json_schema_extra=names("column"),
        description="Columns of `json` values with their Arrow types (`int64`, `timestamp[us, tz=UTC]`, "
        "`list<string>`, …); others, or all if there are none, are inferred and added as they come.",
    )
    subject_strategy: SubjectStrategy = Field(
        "topic_name", description="How the registry names the subject of a value: needed for its newest schema only."
    )
    record: str | None = Field(
        None, description="Full name of the record or message; needed by `subject_strategy` other than `topic_name`."
    )

    @model_validator(mode="after")
    def _strategy_has_its_record(self) -> Self:
        if self.subject_strategy != "topic_name" and self.record is None:
            raise problem(f"{self.subject_strategy} needs the name of the record in `record`", "subject_strategy")
        return self


class RegistryConfig(Section):
    """The schema registry (Confluent's API)."""

    url: str | None = Field(None, description="Its address, e.g. `http://localhost:8081`.")
    username: str | None = Field(None, description="User of basic authentication.")
    password: SecretStr | None = Field(None, description="The password that belongs to it.")
    ca_location: Path | None = Field(None, description="File with the certificates that are trusted (PEM).")
    certificate_location: Path | None = Field(None, description="File with the client's certificate (PEM).")
    key_location: Path | None = Field(None, description="File with the client's key (PEM).")
    timeout_seconds: Seconds = Field(10.0, description="Longest time of one request.")


class KafkaConfig(Section):
    """The Kafka door: topics of a Kafka cluster become topics and tables of the same name."""

    bootstrap_servers: list[str] = Field(
        default_factory=list, description="Brokers to begin with, `host:port`. Without any there is no Kafka door."
    )
    topics: list[str] = Field(
        default_factory=list, description="Topics by name, or by regular expression when it begins with `^`."
    )
    consumer_group: str = Field("frazil", description="Consumer group; its members share the partitions.")
    batch_size: Positive = Field(10_000, description="Most messages that are taken from the client at once.")
    batch_timeout_ms: Positive = Field(
        10, description="How long messages are gathered before they are appended, and can be seen."
    )
    settings: dict[str, FreeText] = Field(
        default_factory=dict,
        repr=False,
        json_schema_extra=names("setting", spelling="spark", secrets=True),
        description="Settings of librdkafka by their own names, e.g. `security.protocol`, `sasl.username`, "
        "`auto.offset.reset`. `isolation.level` is `read_committed` unless set here.",
    )
    format: FormatConfig = Field(FormatConfig(), description="Of all topics that do not set their own.")
    registry: RegistryConfig = Field(RegistryConfig(), description="The schema registry.")
    retry: RetryConfig = Field(RetryConfig(), description="Waiting between tries.")

    @field_validator("bootstrap_servers")
    @classmethod
    def _brokers_do_not_speak_http(cls, servers: list[str]) -> list[str]:
        for server in servers:
            scheme, separator, rest = server.partition("://")
            if separator and scheme.lower() in ("http", "https"):
                raise problem(f"brokers do not speak HTTP; write {rest.rstrip('/')}, without {scheme}://")
        return servers


class BufferConfig(Section):
    """The hot buffer: recent records in memory, by key and by offset; and when records from Kafka are sealed."""

    max_size_mb: Positive = Field(
        500,
        description="Most memory, in MiB. Sealed records make room for new ones; consumption pauses when what is not "
        "sealed fills it.",
    )
    ttl_seconds: Seconds = Field(600.0, description="How long sealed records stay, if there is room.")
    flush_interval_seconds: Seconds = Field(10.0, description="Records from Kafka are sealed after this time,")
    flush_batch_size: Positive = Field(1_000_000, description="or when a partition has so many.")


class IcebergConfig(Section):
    """What tables are made with, unless their topic says otherwise."""

    compression: Compression = Field("zstd", description="Compression of the Parquet files.")
    target_file_size_mb: Positive = Field(256, description="Size at which a data file is closed, in MiB.")


class SqlConfig(Section):
    """Limits of one SQL query."""

    timeout_seconds: Seconds = Field(60.0, description="Longest time.")
    max_memory_mb: Positive = Field(1024, description="Most memory, in MiB.")
    max_rows: Positive = Field(100_000, description="Most rows of a result; more are an error.")
    max_concurrent: Positive = Field(4, description="Queries at a time; others wait, within their time.")


class TopicSealConfig(Section):
    """As `log.seal`, for one topic."""

    interval_seconds: Seconds | None = Field(None, description="As `log.seal.interval_seconds`, for this topic.")
    max_mb: Positive | None = Field(None, description="As `log.seal.max_mb`, for this topic.")
    max_rows: Positive | None = Field(None, description="As `log.seal.max_rows`, for this topic.")


class TopicConfig(Section):
    """What one topic does differently. Unset keys fall back to `log`."""

    ack: Ack = Field(
        "local",
        description="When an append is acknowledged: once it is in the local WAL (`local`) or once its segment is "
        "in the object store (`object`, no WAL).",
    )
    sync: Sync | None = Field(None, description="As `log.sync`, for this topic.")
    linger_ms: Positive | None = Field(None, description="As `log.linger_ms`, for this topic.")
    seal: TopicSealConfig = Field(TopicSealConfig(), description="As `log.seal`, for this topic.")
    format: FormatConfig | None = Field(None, description="As `kafka.format`, for this topic.")
    key_column: str | None = Field(
        None, description="Column that hot lookups by key look at; records from Kafka have their own key."
    )
    tenant_column: str | None = Field(
        None, description="Column that says whose row it is: reads over HTTP see the rows of their own tenant only."
    )
    pipeline: TopicPipelineConfig = Field(TopicPipelineConfig(), description="As `pipeline`, for this topic.")
    table: TableConfig = Field(TableConfig(), description="The topic's base table.")
    derived: dict[str, DerivedTableConfig] = Field(
        default_factory=dict,
        json_schema_extra=names("table"),
        description="Further tables by name, each made by a Spark SQL query.",
    )

    @field_validator("derived")
    @classmethod
    def _derived_names_are_names(cls, derived: dict[str, DerivedTableConfig]) -> dict[str, DerivedTableConfig]:
        for name in derived:
            if not re.fullmatch(r"\w[\w-]*", name):
                raise problem("cannot be a table: use letters, digits, underscores and dashes", name)
        return derived


_DEFAULTS = TopicConfig()


def _telemetry(*sort_by: str) -> TopicConfig:
    layout = TableConfig(partition_by=["tenant_id", "day(timestamp)"], sort_by=list(sort_by))
    return TopicConfig(tenant_column="tenant_id", table=layout)


TELEMETRY = {
    "logs": _telemetry("service_name", "timestamp"),
    "spans": _telemetry("trace_id", "timestamp"),
    "metrics": _telemetry("prometheus_name", "series_id", "timestamp"),
}
"""The topics of the OTLP door: what holds for them unless their settings say otherwise."""


def _over(defaults: TopicConfig, given: TopicConfig) -> TopicConfig:
    """What is given over what is not. Whose a row is can be told by one column only."""
    kept = {name: getattr(given.table, name) for name in given.table.model_fields_set}
    table = defaults.table.model_copy(update=kept)
    return given.model_copy(update={"table": table, "tenant_column": defaults.tenant_column})


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


class ServerConfig(Section):
    """The operations endpoint: health, readiness, metrics."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(8080, description="Port; 0 takes a free one.")
    shutdown_timeout_seconds: Seconds = Field(30.0, description="Longest time of a clean stop.")


class LoggingConfig(Section):
    """What Frazil says of itself."""

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
    otlp: OtlpConfig = Field(OtlpConfig(), description="The OTLP door.")
    buffer: BufferConfig = Field(BufferConfig(), description="The hot buffer.")
    iceberg: IcebergConfig = Field(IcebergConfig(), description="Defaults of tables.")
    sql: SqlConfig = Field(SqlConfig(), description="SQL queries.")
    maintenance: MaintenanceConfig = Field(MaintenanceConfig(), description="Maintenance of tables and log.")
    topics: dict[str, TopicConfig] = Field(
        default_factory=dict, json_schema_extra=names("topic"), description="Settings by topic name."
    )
    server: ServerConfig = Field(ServerConfig(), description="The operations endpoint.")
    logging: LoggingConfig = Field(LoggingConfig(), description="Log output.")

    def topic(self, name: str) -> TopicConfig:
        given = self.topics.get(name, _DEFAULTS)
        return _over(TELEMETRY[name], given) if self.is_telemetry(name) else given

    def is_telemetry(self, topic: str) -> bool:
        """Whether a topic is the OTLP door's, and so nobody else's."""
        return self.otlp.enabled and topic in TELEMETRY

    def base_table(self, topic: str) -> str:
        """The name of its base table, with the namespace. Dots in a topic would be namespaces in a table's name."""
        name = self.topic(topic).table.name or topic.replace(".", "_")
        return name if "." in name else f"{self.lake.namespace}.{name}"

    def format_of(self, topic: str) -> FormatConfig:
        """How records of a topic that comes from Kafka are decoded."""
        return self.topic(topic).format or self.kafka.format

    @model_validator(mode="after")
    def _kafka_is_whole(self) -> Self:
        if self.kafka.topics and not self.kafka.bootstrap_servers:
            raise problem("needs kafka.bootstrap_servers, the brokers that have them", "kafka", "topics")
        if self.kafka.bootstrap_servers and not self.kafka.topics:
            raise problem("needs kafka.topics, the topics to read from them", "kafka", "bootstrap_servers")
        for name in filter(self.is_telemetry, self.kafka.topics):
            raise problem(
                f"{name} is a topic of the OTLP door; leave it out, or set otlp.enabled to false", "kafka", "topics"
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
                if kind in REGISTERED and self.kafka.registry.url is None:
                    raise problem(f"{kind} needs kafka.registry.url, the schema registry", *key, part)
        return self

    @model_validator(mode="after")
    def _levels_fit_compressions(self) -> Self:
        for topic, settings in self.topics.items():
            layouts: dict[tuple[str, ...], TableLayoutConfig] = {("table",): settings.table}
            layouts |= {("derived", name): derived for name, derived in settings.derived.items()}
            for key, layout in layouts.items():
                wrong = _wrong_level(layout.compression or self.iceberg.compression, layout.compression_level)
                if wrong:
                    raise problem(wrong, "topics", topic, *key, "compression_level")
        return self

    @model_validator(mode="after")
    def _one_feeder_per_table(self) -> Self:
        """Two that commit to one table would stop each other at every batch."""
        seen: dict[str, str] = {}
        for topic, settings in self.topics.items():
            base = self.base_table(topic)
            fed: dict[tuple[str, ...], str] = {("topics", topic, "table"): base}
            for each in settings.derived:
                fed["topics", topic, "derived", each] = f"{base.rpartition('.')[0]}.{each}"
            for key, table in fed.items():
                if table in seen:
                    raise problem(f"is the table {table}, but so is {seen[table]}; give one another name", *key)
                seen[table] = ".".join(key)
        return self


_LEVELS: dict[Compression, int] = {"zstd": 22, "gzip": 9}


def _wrong_level(compression: Compression, level: int | None) -> str | None:
    if level is None or level <= _LEVELS.get(compression, 0):
        return None
    if compression not in _LEVELS:
        return f"{compression} has no levels; zstd and gzip have"
    return f"{compression} has levels from 1 to {_LEVELS[compression]}"
