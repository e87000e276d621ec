"""Settings that the doors for telemetry share: OTLP, Loki's push, Prometheus's remote write."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from frazil.config.sections.section import Positive, Section, free_names, setting_problem

_NAME = re.compile(r"[A-Za-z0-9!\-_.*'()]{1,150}")
NAME_RULE = "use 1 to 150 of the characters A-Z a-z 0-9 ! - _ . * ' ( ) and neither . nor .. alone"
"""Error messages about the name of a tenant state this rule."""

_Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def is_tenant(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name not in (".", "..")


class LimitsConfig(Section):
    """Limits what one tenant may send."""

    max_record_kb: Positive = Field(
        1024, description="Largest record, in KiB, as the log holds it. Larger ones are rejected."
    )
    max_attributes: Positive = Field(
        256,
        description="Most attributes, or labels, of a record, its resource or its scope. One with more is rejected.",
    )
    rate_mb: _Rate | None = Field(
        None, description="Most MiB a second, after decompression; more is told to come later. No bound by default."
    )
    burst_mb: _Rate | None = Field(
        None, description="What may come at once beyond that; by default the MiB of one second."
    )


class TenantLimitsConfig(Section):
    """Limits what a certain tenant may send."""

    max_record_kb: Positive | None = Field(None, description="As `telemetry.limits.max_record_kb`, for this tenant.")
    max_attributes: Positive | None = Field(
        None, description="As `telemetry.limits.max_attributes`, for this tenant."
    )
    rate_mb: _Rate | None = Field(None, description="As `telemetry.limits.rate_mb`, for this tenant.")
    burst_mb: _Rate | None = Field(None, description="As `telemetry.limits.burst_mb`, for this tenant.")


class TelemetryConfig(Section):
    """Sets what the doors for telemetry share: OTLP, Loki's push and Prometheus's remote write."""

    max_body_mb: Positive = Field(
        64,
        le=256,
        description="Largest request, in MiB, after decompression. Columns of Arrow address no more than this can "
        "become.",
    )
    max_in_flight_mb: Positive = Field(
        256,
        description="Most MiB of requests that are worked on at once, and of rows of them that are not stored yet; "
        "others are told to come later.",
    )
    deduplicate: Literal["timed", "always", "never"] = Field(
        "timed",
        description="Whether a request that comes again, byte for byte, is stored once: `timed` if all its records "
        "have a time of their own. Remembered for `log.sources.request_ttl_seconds`.",
    )
    limits: LimitsConfig = Field(LimitsConfig(), description="The limits of every tenant.")
    tenants: dict[str, TenantLimitsConfig] = Field(
        default_factory=dict, json_schema_extra=free_names("tenant"), description="Limits of single tenants, by name."
    )

    @field_validator("tenants")
    @classmethod
    def _tenants_can_be(cls, tenants: dict[str, TenantLimitsConfig]) -> dict[str, TenantLimitsConfig]:
        for name in tenants:
            if not is_tenant(name):
                raise setting_problem(f"cannot be a tenant: {NAME_RULE}", name)
        return tenants

    def limits_of(self, tenant: str) -> LimitsConfig:
        if tenant not in self.tenants:
            return self.limits
        own = self.tenants[tenant].model_dump(exclude_none=True)
        return self.limits.model_copy(update=own)
