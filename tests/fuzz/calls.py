"""Requests that have no neighbours of their own kind: what matters is how they are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.fuzz.answering import Answered
from tests.fuzz.mutating import Chance


class Call(NamedTuple):
    name: str
    make: Callable[[Chance], Awaitable[Answered]]
    """All is chosen before anything is sent."""
