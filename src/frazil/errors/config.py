"""Settings and calls that cannot work."""

from __future__ import annotations

from frazil.errors.base import FrazilError


class ConfigError(FrazilError):
    """Raised when a setting is unknown, missing or wrong."""

    exit_code = 1
    kind = "config"


class CallError(ConfigError):
    """Raised when somebody asks for what cannot be: a name, a partition, a column, a range or a condition."""

    public = True
