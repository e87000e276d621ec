"""Settings of retries and of circuit breakers."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.section import Positive, Seconds, Section


class RetryConfig(Section):
    """Sets how long to wait between tries: `min(max_delay, base_delay × 2^attempt)` and up to a tenth more, by
    chance."""

    base_delay_ms: Positive = Field(100, description="First delay.")
    max_delay_seconds: Seconds = Field(30.0, description="Longest delay.")
    max_attempts: Positive = Field(10, description="Tries before a failure is reported and the work starts over.")


class BreakerConfig(Section):
    """The circuit breakers around catalog and object store."""

    failure_threshold: Positive = Field(5, description="Failures in a row that open the circuit.")
    reset_timeout_seconds: Seconds = Field(30.0, description="How long it stays open before one call may try again.")
    success_threshold: Positive = Field(2, description="Successes in a row that close it.")
