"""Settings of the catalog and of tables."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from frazil.config.sections.section import FreeText, Positive, Seconds, Section, free_names, setting_problem


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
        json_schema_extra=free_names("property", spelling="iceberg", secrets=True),
        description="Settings of the catalog by PyIceberg's names (`type`, `uri`, `warehouse`, `s3.endpoint`, …); "
        "they win over PyIceberg's own files. Without any, the catalog is an SQLite file in `data_dir` and the "
        "warehouse a folder of the store.",
    )
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")] = Field(
        "frazil", description="Namespace of tables whose topic does not name one."
    )
    timeout_seconds: Seconds = Field(30.0, description="Longest time of one request to the catalog.")
    read_age_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0,
        description="Queries may use what the catalog said of a table so long ago. Rows that were moved meanwhile "
        "are read from the log. An SQLite catalog is always asked.",
    )


Compression = Literal["zstd", "snappy", "lz4", "gzip", "none"]


Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NEEDS_RETENTION_COLUMN = "needs retention_column, the column that tells how old a row is"


class TableLayoutConfig(Section):
    """How a table's files are laid out, which is decided when the table is created, and how long its rows stay."""

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
        json_schema_extra=free_names("property", spelling="iceberg"),
        description="Further Iceberg table properties, as they are.",
    )
    retention_days: Amount | None = Field(
        None,
        description="Rows older than this are dropped from the table; by default none are. That of a base table is "
        "also that of the topic's dead letters, by `failed_at`.",
    )
    retention_gb: Amount | None = Field(
        None,
        description="The oldest files are dropped from the table as long as the others have this size, in GiB; by "
        "default none are.",
    )
    retention_column: str | None = Field(
        None,
        description="Date or timestamp column that tells the age of a row, for `retention_days` and `retention_gb`; "
        "by default the `publish_time` that topics of messages have.",
    )

    @property
    def retention(self) -> str | None:
        """Returns the key that limits the table, if one does."""
        return next((key for key in ("retention_days", "retention_gb") if getattr(self, key) is not None), None)


class DerivedTableConfig(TableLayoutConfig):
    """A table made from a topic by a Spark SQL query."""

    sql: str = Field(
        description="The query; its input is the view `batch`, e.g. `SELECT id, upper(name) FROM batch`."
    )
    backfill: bool = Field(
        False, description="Whether it begins with what the base table has already, or with what comes next."
    )

    @model_validator(mode="after")
    def _retention_has_its_column(self) -> Self:
        if self.retention is not None and self.retention_column is None:
            raise setting_problem(NEEDS_RETENTION_COLUMN, self.retention)
        return self


class TableConfig(TableLayoutConfig):
    """The base table of a topic."""

    name: str | None = Field(
        None, description="Name of the table with its namespace; by default the topic's, in `lake.namespace`."
    )
    adopt: bool = Field(
        False, description="Whether a table of that name that Frazil did not create is used, if its schema fits."
    )
    subscription_retention_days: Amount | None = Field(
        None,
        description="Messages past the retention of the table stay until all subscriptions have acknowledged them, "
        "but no longer than this; by default for as long as it takes.",
    )
    subscription_retention_gb: Amount | None = Field(
        None,
        description="As `subscription_retention_days`, by the size of the table in GiB. The limit that comes first "
        "counts.",
    )

    @model_validator(mode="after")
    def _subscriptions_wait_for_retention(self) -> Self:
        for key in ("subscription_retention_days", "subscription_retention_gb"):
            if getattr(self, key) is not None and self.retention is None:
                raise setting_problem("needs retention_days or retention_gb: without them all messages stay", key)
        return self


class IcebergConfig(Section):
    """What tables are made with, unless their topic says otherwise."""

    compression: Compression = Field("zstd", description="Compression of the Parquet files.")
    target_file_size_mb: Positive = Field(256, description="Size at which a data file is closed, in MiB.")


_LEVELS: dict[Compression, int] = {"zstd": 22, "gzip": 9}


def compression_level_problem(compression: Compression, level: int | None) -> str | None:
    if level is None or level <= _LEVELS.get(compression, 0):
        return None
    if compression not in _LEVELS:
        return f"{compression} has no levels; zstd and gzip have"
    return f"{compression} has levels from 1 to {_LEVELS[compression]}"
