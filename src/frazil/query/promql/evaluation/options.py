"""Says how queries are evaluated: what servers set, and what bounds a query."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.query.promql.parse import ParserOptions


@dataclass(frozen=True)
class EngineOptions:
    """The defaults are those of a Prometheus server."""

    lookback_ms: int = 300_000
    """How old the newest sample of a series may be to stand for it."""
    subquery_step_ms: int = 60_000
    """The step of subqueries that name none."""
    max_samples: int = 50_000_000
    """How many samples a query may hold."""
    max_steps: int = 11_001
    delayed_names: bool = False
    """Whether metric names go at the very end only, as with `promql-delayed-name-removal`."""
    start_timestamps: bool = False
    """Whether start times of samples show resets, as with `use-start-timestamps`."""
    type_and_unit_labels: bool = False
    """Whether the label `__type__` says what is a counter."""
    parser: ParserOptions = field(default_factory=ParserOptions)
