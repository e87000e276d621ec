"""The results of maintenance operations: what was done, or would be done, to a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from frazil.errors import FrazilError

Outcome = Literal["done", "nothing", "would", "later", "skipped", "failed"]
"""`would` means that a dry run found something to do, `later` that somebody else was using the table, and `skipped`
that the operation must not be done to this table."""


class Later(FrazilError):
    """Raised when an operation has to wait for somebody else. The next run does what is left."""

    retryable = True


class NotOurs(FrazilError):
    """Raised when an operation must not be done to a table, which is no failure."""


@dataclass(frozen=True)
class Amounts:
    """Counts of a table. They are None where nobody counted."""

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
    """The counts after the operation, or as they would be."""
    note: str = ""
    """An explanation for people."""
    removed: Amounts = NOTHING_COUNTED
    """The counts of what was deleted, or would be."""
    items: tuple[str, ...] = ()
    """The single things that a dry run would change."""


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
