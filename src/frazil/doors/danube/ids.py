"""Makes ids of producers and consumers that stay the same after a restart.

Clients keep using an id when the server was away for a while. So an id is computed from what it stands for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from frazil.errors import RequestError

LONGEST_NAME = 1000


def stable_id(*names: str) -> int:
    """Returns the same id for the same names. It is never 0."""
    digest = hashlib.sha256("\0".join(f"{len(name)} {name}" for name in names).encode())
    return int.from_bytes(digest.digest()[:8]) or 1


def check_length(name: str) -> str:
    """Raises an error if a name is too long, because names of producers and consumers are kept in memory."""
    if len(name) > LONGEST_NAME:
        raise RequestError(
            f"{name[:40]!r}… has {len(name):,} characters: names of producers and consumers, and patterns of keys, "
            f"have at most {LONGEST_NAME:,}."
        )
    return name


def producer_id(topic: str, name: str) -> int:
    """Accepts a name of any length, because other doors take longer ones."""
    return _remembered(topic, name) if len(name) <= LONGEST_NAME else stable_id("producer", topic, name)


@lru_cache(10_000)
def _remembered(topic: str, name: str) -> int:
    return stable_id("producer", topic, name)


def consumer_id(topic: str, subscription: str, kind: str, name: str, filters: Sequence[str] = ()) -> int:
    return stable_id("consumer", topic, subscription, kind, name, *filters)
