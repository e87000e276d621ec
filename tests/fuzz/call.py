"""Requests that have no neighbours of their own kind: what matters is how they are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.fuzz.answers import Answer
from tests.fuzz.mutation import Chance


class Call(NamedTuple):
    name: str
    make: Callable[[Chance], Awaitable[Answer]]
    """All is chosen before anything is sent."""
