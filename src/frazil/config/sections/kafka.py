"""Settings of the Kafka door, of the formats of its records, and of the hot buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from frazil.config.sections.retry import RetryConfig
from frazil.config.sections.section import FreeText, Positive, Seconds, Section, free_names, setting_problem

Format = Literal["raw", "string", "json", "avro", "protobuf", "json_schema"]
REGISTRY_FORMATS: frozenset[Format] = frozenset({"avro", "protobuf", "json_schema"})
"""Schemas of these formats are kept in a registry."""
SubjectStrategy = Literal["topic_name", "record_name", "topic_record_name"]


class FormatConfig(Section):
    """Sets how keys and values of Kafka records are decoded."""

    value: Format = Field(
        "raw",
        description="`raw` bytes, `string` (UTF-8), `json` without a registry, or `avro`, `protobuf` and "
        "`json_schema` in the wire format of a schema registry.",
    )
    key: Format = Field("raw", description="The format of keys, with the same choices as `value`.")
    columns: dict[str, str] = Field(
        default_factory=dict,
        json_schema_extra=free_names("column"),
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
            raise setting_problem(
                f"{self.subject_strategy} needs the name of the record in `record`", "subject_strategy"
            )
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
        json_schema_extra=free_names("setting", spelling="spark", secrets=True),
        description="Settings of librdkafka by their own names, e.g. `security.protocol`, `sasl.username`, "
        "`auto.offset.reset`. `isolation.level` is `read_committed` unless set here.",
    )
    format: FormatConfig = Field(FormatConfig(), description="The format of all topics that do not set their own.")
    registry: RegistryConfig = Field(RegistryConfig(), description="The schema registry.")
    retry: RetryConfig = Field(RetryConfig(), description="Waiting between tries.")

    @field_validator("bootstrap_servers")
    @classmethod
    def _brokers_do_not_speak_http(cls, servers: list[str]) -> list[str]:
        for server in servers:
            scheme, separator, rest = server.partition("://")
            if separator and scheme.lower() in ("http", "https"):
                raise setting_problem(f"brokers do not speak HTTP; write {rest.rstrip('/')}, without {scheme}://")
        return servers


class BufferConfig(Section):
    """The hot buffer: recent records in memory, by key and by offset; and when records from Kafka are sealed."""

    max_size_mb: Positive = Field(
        500,
        description="Most memory, in MiB. Sealed records make room for new ones; consumption pauses when what is not "
        "sealed fills it.",
    )
    ttl_seconds: Seconds = Field(600.0, description="How long sealed records stay, if there is room.")
    flush_interval_seconds: Seconds = Field(10.0, description="Records from Kafka are sealed after this time.")
    flush_batch_size: Positive = Field(
        1_000_000, description="Records from Kafka are sealed when a partition has this many."
    )
