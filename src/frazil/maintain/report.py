"""What an operation did to a table, or would do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from frazil.errors import FrazilError

Outcome = Literal["done", "nothing", "would", "later", "skipped", "failed"]
"""`would`: a dry run found something to do. `later`: somebody else was at it. `skipped`: it is not for us to do."""


class Later(FrazilError):
    """Raised when an operation has to wait for somebody else; the next run finds what is left to do."""

    retryable = True


class NotOurs(FrazilError):
    """Raised when an operation must not be done to a table, which is no failure."""


@dataclass(frozen=True)
class Amounts:
    """How much there is; None where nobody counted."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    snapshots: int | None = None
    manifests: int | None = None

    def as_data(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}


NOTHING_COUNTED = Amounts()


@dataclass(frozen=True)
class OperationResult:
    outcome: Outcome
    before: Amounts = NOTHING_COUNTED
    after: Amounts = NOTHING_COUNTED
    """As it is now, or as it would be."""
    note: str = ""
    """For people."""
    removed: Amounts = NOTHING_COUNTED
    """What was deleted for good, or would be."""
    items: tuple[str, ...] = ()
    """What a dry run would touch, one by one."""


@dataclass(frozen=True)
class OperationReport:
    operation: str
    table: str
    topic: str
    work: OperationResult
    seconds: float
    error: FrazilError | None = None

    @property
    def outcome(self) -> Outcome:
        return self.work.outcome

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "operation": self.operation,
            "table": self.table,
            "topic": self.topic,
            "outcome": self.outcome,
            "before": self.work.before.as_data(),
            "after": self.work.after.as_data(),
            "removed": self.work.removed.as_data(),
            "note": self.work.note,
            "seconds": round(self.seconds, 3),
        }
        if self.work.items:
            data["items"] = list(self.work.items)
        return data
