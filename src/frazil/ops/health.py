"""Collects the health of components, of which the worst decides, and whether the process is ready for work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from frazil.version import __version__

Status = Literal["healthy", "degraded", "unhealthy"]

_SEVERITY: dict[Status, int] = {"healthy": 0, "degraded": 1, "unhealthy": 2}


@dataclass(frozen=True)
class Health:
    status: Status = "healthy"
    reason: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    """Where a component consists of many tables, topics or partitions, this says what is wrong with which."""

    @classmethod
    def of(cls, problems: Mapping[str, object], status: Status = "degraded") -> Health:
        """Returns the health of a component of many, given what is wrong with some of them.

        It is healthy if there are no problems.
        """
        if not problems:
            return HEALTHY
        details = {name: str(problem) for name, problem in sorted(problems.items())}
        return cls(status, "; ".join(f"{name}: {problem}" for name, problem in details.items()), details)

    def as_data(self) -> dict[str, Any]:
        plain = {"status": self.status, "reason": self.reason}
        return {**plain, "details": dict(self.details)} if self.details else plain


HEALTHY = Health()

Components = Mapping[str, Health]

Check = Callable[[], Health | Components]
"""A check returns the health of one component, or of several by their names."""


@dataclass(frozen=True)
class HealthReport:
    components: Components
    uptime_seconds: float

    @property
    def status(self) -> Status:
        return max(
            (health.status for health in self.components.values()), key=_SEVERITY.__getitem__, default="healthy"
        )

    @property
    def reason(self) -> str:
        """Says why the status is not better, and names the components that decide it."""
        if self.status == "healthy":
            return ""
        worst = {name: health.reason for name, health in self.components.items() if health.status == self.status}
        return "; ".join(f"{name} is {self.status}: {reason or 'no reason given'}" for name, reason in worst.items())

    def as_data(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "components": {name: health.as_data() for name, health in self.components.items()},
            "version": __version__,
            "uptime_seconds": round(self.uptime_seconds, 3),
        }


class _Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"


class HealthRegistry:
    """Knows the checks of all components, and is thread-safe.

    A component is registered with a check, or its health is set whenever it changes. Checks run on the server's event
    loop when health is asked for, so they must not wait for anything.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._checks: dict[str, Check] = {}
        self._optional: set[str] = set()
        self._phase = _Phase.STARTING

    def register(self, name: str, check: Check, *, optional: bool = False) -> None:
        """An `optional` component may fail while the process stays ready, because the others work without it."""
        with self._lock:
            self._checks[name] = check
            if optional:
                self._optional.add(name)

    def set(self, name: str, status: Status, reason: str = "") -> None:
        health = Health(status, reason)
        self.register(name, lambda: health)

    def remove(self, name: str) -> None:
        with self._lock:
            self._checks.pop(name, None)

    def report(self, *, optional: bool = True) -> HealthReport:
        """Runs the checks of all components, or of those that are not optional."""
        with self._lock:
            checks = {name: check for name, check in self._checks.items() if optional or name not in self._optional}
        components: dict[str, Health] = {}
        for name, check in checks.items():
            found = _run(check)
            components.update({name: found} if isinstance(found, Health) else found)
        return HealthReport(components, self._clock() - self._started)

    def mark_ready(self) -> None:
        self._phase = _Phase.RUNNING

    def mark_draining(self) -> None:
        self._phase = _Phase.DRAINING

    def not_ready(self) -> str | None:
        """Says why no work should be sent here, or returns None."""
        if self._phase is not _Phase.RUNNING:
            return str(self._phase)
        report = self.report(optional=False)
        return report.reason if report.status == "unhealthy" else None


def _run(check: Check) -> Health | Components:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that fails is what this is here to report
        return Health("unhealthy", f"its check failed: {type(error).__name__}: {error}")
