"""What a process that answers queries and its parent say to each other."""

from __future__ import annotations

from typing import NamedTuple

from frazil.errors import FrazilError

TOO_MUCH_MEMORY = 77
"""Exit code of a process that took more memory than its query may."""


class Ready(NamedTuple):
    """It has loaded all it needs."""


class Question(NamedTuple):
    text: str
    tenant: str | None
    arrow: bool
    """Whether the answer is to be an Arrow stream, else JSON."""


class TailsWanted(NamedTuple):
    """To be answered with tails: only the parent has them."""

    topics: tuple[str, ...]


class Answer(NamedTuple):
    body: bytes | FrazilError
    leaving: bool
    """Whether the process ends now: something in it did not stop when it should."""
