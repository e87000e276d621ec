"""Settings of the log and of the object store."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from frazil.config.sections.section import FreeText, Positive, Seconds, Section, free_names

Sync = Literal["always", "periodic", "none"]
Ack = Literal["local", "object"]
MOST_COLUMNS = 2000


class SealConfig(Section):
    """Sets when the tail becomes a segment: whichever of these comes first."""

    interval_seconds: Seconds = Field(10.0, description="Age of the oldest record in the tail.")
    max_mb: Positive = Field(64, description="Size of the tail in MiB.")
    max_rows: Positive = Field(1_000_000, description="Number of records in the tail.")


class SourcesConfig(Section):
    """Limits what the log remembers of those who feed it, so that a repeated append is stored once."""

    ttl_seconds: Seconds = Field(
        86_400.0, description="How long a silent producer's sequence is remembered, in seconds."
    )
    max_producers: Positive = Field(10_000, description="Most producers remembered per partition.")
    request_ttl_seconds: Seconds = Field(
        300.0, description="How long the hash of a request is remembered, in seconds."
    )
    max_requests: Positive = Field(
        262_144,
        description="Most request hashes remembered per partition, about 250 bytes each; the newest 65,536 of them "
        "also across a restart.",
    )


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
    max_columns: Positive = Field(
        MOST_COLUMNS,
        description="Most columns of a topic, with those inside of others; records that bring more are refused.",
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
    """Sets where segments go: a local folder or an object store."""

    url: str | None = Field(
        None,
        description="`s3://bucket/prefix`, `gs://…`, `az://…` or a folder. By default `store` inside `data_dir`.",
    )
    options: dict[str, FreeText] = Field(
        default_factory=dict,
        repr=False,
        json_schema_extra=free_names("option", secrets=True),
        description="Settings of the store by the names of the `obstore` package, e.g. `endpoint`, `region`, "
        "`virtual_hosted_style_request`.",
    )
    access_key_id: str | None = Field(None, description="Name of the key (S3: access key id; Azure: account).")
    secret_access_key: SecretStr | None = Field(None, description="The secret that belongs to it.")
    session_token: SecretStr | None = Field(None, description="Token of temporary credentials.")
    timeout_seconds: Seconds = Field(30.0, description="Longest time of one request.")
