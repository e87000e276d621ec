"""What a process and the one that works for it say to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Ready(NamedTuple):
    """It has started."""


class Task(NamedTuple):
    number: int
    work: Callable[..., Any]
    """A function of a module."""
    given: tuple[Any, ...]


class Done(NamedTuple):
    number: int
    """Of the task."""
    result: Any


class Failed(NamedTuple):
    number: int
    reason: str
