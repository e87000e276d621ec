"""Provides time and randomness as parameters, so that a test can drive both from one seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Returns the milliseconds since 1970."""

    def monotonic(self) -> float:
        """Returns seconds that never run backwards."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def boot_id() -> str:
    """Returns an id that changes whenever the machine reboots, and so loses what was not synced."""
    kernel = Path("/proc/sys/kernel/random/boot_id")
    if kernel.exists():
        return kernel.read_text().strip()
    started = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    return f"boot-{round(started / 10)}"


@dataclass(frozen=True)
class World:
    """Holds what the log takes from outside beside its store and its folder."""

    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.SystemRandom)
    boot_id: Callable[[], str] = boot_id

    def new_id(self) -> str:
        return f"{self.rng.getrandbits(96):024x}"


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
