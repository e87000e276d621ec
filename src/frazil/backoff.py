"""Computes how long to wait before trying again: `min(longest, base × 2^attempt)`, and at random up to a tenth
more."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    base_seconds: float = 0.1
    longest_seconds: float = 30.0
    max_attempts: int = 10

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Returns the seconds before the next try, after `attempt` tries have failed (from 0)."""
        plain = min(self.longest_seconds, self.base_seconds * 2.0 ** min(attempt, 62))
        return plain * (1 + rng.random() / 10)
