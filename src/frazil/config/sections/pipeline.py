"""Settings of the pipeline."""

from __future__ import annotations

from pydantic import Field, field_validator

from frazil.config.sections.retry import BreakerConfig, RetryConfig
from frazil.config.sections.section import FreeText, Positive, Seconds, Section, free_names, setting_problem


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
    idle_seconds: Seconds = Field(
        60.0,
        description="A table's query, which has a Python process of its own, ends after so long with nothing to "
        "move; another starts when there is something.",
    )
    spark: dict[str, FreeText] = Field(
        default_factory=dict,
        repr=False,
        json_schema_extra=free_names("setting", spelling="spark", secrets=True),
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
                raise setting_problem(f"Spark's settings begin with `spark.`; did you mean spark.{name}?", name)
        return spark


class TopicPipelineConfig(Section):
    """Overrides of `pipeline` for one topic."""

    flush_interval_seconds: Seconds | None = Field(None, description="As `pipeline.flush_interval_seconds`.")
    max_size_mb: Positive | None = Field(None, description="As `pipeline.max_size_mb`.")
    flush_batch_size: Positive | None = Field(None, description="As `pipeline.flush_batch_size`.")
