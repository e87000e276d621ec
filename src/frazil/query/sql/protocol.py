"""Defines the messages between a process that answers queries and its parent."""

from __future__ import annotations

from typing import NamedTuple

from frazil.errors import FrazilError

TOO_MUCH_MEMORY = 77
"""A process exits with this code when it took more memory than its query may."""


class Ready(NamedTuple):
    """The process has loaded everything and can take questions."""


class Question(NamedTuple):
    text: str
    tenant: str | None
    arrow: bool
    """The answer is an Arrow stream if this is true, else JSON."""


class TailsWanted(NamedTuple):
    """The process asks for the tails of these topics, which only the parent has."""

    topics: tuple[str, ...]


class Answer(NamedTuple):
    body: bytes | FrazilError
    leaving: bool
    """The process ends after this answer, because something in it did not stop in time."""
