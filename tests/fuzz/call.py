"""Calls that store no records that must be found again: only their answers are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.fuzz.answers import Answer
from tests.fuzz.mutation import Chance


class Call(NamedTuple):
    name: str
    make: Callable[[Chance], Awaitable[Answer]]
    """All random choices are made before anything is sent."""
