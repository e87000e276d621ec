"""Every setting of Frazil, with its type, its default and its meaning.

`docs/configuration.md` is generated from these classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Sync = Literal["always", "periodic", "none"]
Ack = Literal["local", "object"]

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MIB = 1024 * 1024


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
    options: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of the store by the names of the `obstore` package, e.g. `endpoint`, `region`, "
        "`virtual_hosted_style_request`.",
    )
    access_key_id: str | None = Field(None, description="Name of the key (S3: access key id; Azure: account).")
    secret_access_key: SecretStr | None = Field(None, description="The secret that belongs to it.")
    session_token: SecretStr | None = Field(None, description="Token of temporary credentials.")
    timeout_seconds: Seconds = Field(30.0, description="Longest time of one request.")


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
    topics: dict[str, TopicConfig] = Field(default_factory=dict, description="Settings by topic name.")
    server: ServerConfig = Field(ServerConfig(), description="The operations endpoint.")
    logging: LoggingConfig = Field(LoggingConfig(), description="Log output.")

    def topic(self, name: str) -> TopicConfig:
        return self.topics.get(name, TopicConfig())
