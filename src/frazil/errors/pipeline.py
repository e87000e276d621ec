"""Names what goes wrong with Spark."""

from __future__ import annotations

from frazil.errors.base import FrazilError


class PipelineError(FrazilError):
    """Raised when Spark, or what it needs, is not there or fails."""

    kind = "spark"


class JavaNotFound(PipelineError):
    """Raised when there is no Java that Spark can run on."""


class JarsUnavailable(PipelineError):
    """Raised when a jar that Spark needs is neither in the cache nor can be fetched."""

    retryable = True


class SparkFailed(PipelineError):
    """Raised when Spark does not start, or stops by itself."""

    retryable = True
