"""Ids of producers and consumers, which mean the same after a restart.

Clients know themselves by the id that they were once given, and go on to use it when the server was gone for a while.
So an id follows from what it stands for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from frazil.errors import RequestError

LONGEST_NAME = 1000


def stable_id(*names: str) -> int:
    """The same for the same names; never 0."""
    digest = hashlib.sha256("\0".join(f"{len(name)} {name}" for name in names).encode())
    return int.from_bytes(digest.digest()[:8]) or 1


def check_length(name: str) -> str:
    """Of a producer or a consumer: names are kept in memory."""
    if len(name) > LONGEST_NAME:
        raise RequestError(
            f"{name[:40]!r}… has {len(name):,} characters: names of producers and consumers, and patterns of keys, "
            f"have at most {LONGEST_NAME:,}."
        )
    return name


def producer_id(topic: str, name: str) -> int:
    """Of any name: other doors take longer ones."""
    return _remembered(topic, name) if len(name) <= LONGEST_NAME else stable_id("producer", topic, name)


@lru_cache(10_000)
def _remembered(topic: str, name: str) -> int:
    return stable_id("producer", topic, name)


def consumer_id(topic: str, subscription: str, kind: str, name: str, filters: Sequence[str] = ()) -> int:
    return stable_id("consumer", topic, subscription, kind, name, *filters)
