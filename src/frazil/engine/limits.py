"""Says what one query may take, with the name of the setting that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from frazil.config.model import Config
from frazil.config.sections.section import MIB

_PER_TENANT = ("timeout_seconds", "max_memory_mb", "max_read_mb", "max_rows_out", "max_concurrent", "max_queue")


class Limit(NamedTuple):
    value: float
    setting: str
    """The key in the settings, which errors name."""


@dataclass(frozen=True)
class QueryLimits:
    """Limits one query."""

    timeout_seconds: Limit
    max_memory_mb: Limit
    max_read_mb: Limit | None
    max_rows_out: Limit | None

    @property
    def memory_bytes(self) -> int:
        return int(self.max_memory_mb.value) * MIB


class TenantTurns(NamedTuple):
    """Limits how many queries of one tenant run, and how many wait."""

    max_concurrent: Limit
    max_queue: Limit


def query_limits(config: Config, tenants: Sequence[str]) -> QueryLimits:
    """Returns the limits of a query for the rows of these tenants. Of several tenants the lowest limit counts."""
    limits = _limits(config, tenants)
    return QueryLimits(
        limits["timeout_seconds"], limits["max_memory_mb"], limits["max_read_mb"], limits["max_rows_out"]
    )


def tenant_turns(config: Config, tenants: Sequence[str]) -> TenantTurns:
    limits = _limits(config, tenants)
    return TenantTurns(limits["max_concurrent"], limits["max_queue"])


@dataclass(frozen=True)
class Solo:
    """Says that each query of a language has a process to itself, because nothing but the end of the process stops it
    for sure; and its limits."""

    limits: QueryLimits
    max_concurrent: Limit


def _limits(config: Config, tenants: Sequence[str]) -> dict[str, Limit]:
    return {name: min(_choices(config, name, tenants or ("",))) for name in _PER_TENANT}


def _choices(config: Config, name: str, tenants: Sequence[str]) -> list[Limit]:
    found = []
    for tenant in tenants:
        own = config.query.tenants.get(tenant)
        value = getattr(own, name) if own is not None else None
        if value is None:
            found.append(Limit(getattr(config.query, name), f"query.{name}"))
        else:
            found.append(Limit(value, f"query.tenants.{tenant}.{name}"))
    return found
