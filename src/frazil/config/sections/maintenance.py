"""Settings of maintenance."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from frazil.config.sections.section import Positive, Seconds, Section


class CompactionConfig(Section):
    """Joining small data files into large ones."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(60.0, description="Time between two runs.")
    settle_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        600.0,
        description="A partition of a table is closed this long after the last file: then small files are merged "
        "once more.",
    )
    strategy: Literal["auto", "binpack", "sort"] = Field(
        "auto",
        description="For tables with equality deletes, which Spark compacts. `sort` orders rows anew; `auto` does "
        "so where the table has a sort order.",
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
    """Sets whether and how often something runs."""

    enabled: bool = Field(True, description="Whether it runs by itself.")
    interval_seconds: Seconds = Field(3600.0, description="Time between two runs.")


class MaintenanceConfig(Section):
    """Sets what keeps tables and log small and quick; it runs inside the pipeline."""

    enabled: bool = Field(
        True, description="Whether pipelines run it by themselves; `frazil maintain` works in any case."
    )
    compaction: CompactionConfig = Field(CompactionConfig(), description="Compaction of small data files.")
    manifests: ManifestsConfig = Field(ManifestsConfig(), description="Rewriting of small manifests.")
    expiry: ExpiryConfig = Field(ExpiryConfig(), description="Expiry of old snapshots.")
    orphans: OrphansConfig = Field(OrphansConfig(), description="Deletion of files that belong to nothing.")
    retention: ScheduledConfig = Field(
        ScheduledConfig(), description="Deletion of rows past the retention of their table."
    )
    trim: ScheduledConfig = Field(
        ScheduledConfig(interval_seconds=60.0), description="Deletion of segments that are in the tables."
    )
