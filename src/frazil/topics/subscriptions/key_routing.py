"""Decides which consumer gets which routing key, and which keys a consumer wants."""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Accepts = Callable[[str], bool]
"""Returns whether a consumer wants messages of a key."""

POINTS = 100
"""Each consumer has this many points on the ring. More points make their shares more even."""


def key_runs(batch: pa.RecordBatch) -> Iterator[tuple[str, int, int]]:
    """Yields the key, the first row and the row after the last of neighbours with one key.

    If a message has no key, the producer's name is used.
    """
    keys = pc.coalesce(batch.column("routing_key"), batch.column("producer_name"), pa.scalar(""))
    encoded = keys.dictionary_encode()
    indices = encoded.indices.to_numpy()
    borders = [0, *(np.flatnonzero(np.diff(indices)) + 1).tolist(), len(indices)]
    names = encoded.dictionary.to_pylist()
    for start, end in pairwise(borders):
        if start < end:
            yield names[indices[start]], start, end


class HashRing:
    """Implements consistent hashing: each name has points on a ring, and a key belongs to the next point. When a name
    is added or removed, only its own keys move."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        points = sorted((_hash(f"{name}/{number}"), name) for name in names for number in range(POINTS))
        self._points = [point for point, _ in points]
        self._names = [name for _, name in points]

    def owner(self, key: str, among: Collection[str] | None = None) -> str | None:
        """Returns the owner of a key. If `among` is given, it is one of these names."""
        if not self._points or (among is not None and not among):
            return None
        place = bisect_right(self._points, _hash(key)) % len(self._points)
        while among is not None and self._names[place] not in among:
            place = (place + 1) % len(self._points)
        return self._names[place]


def one_of(patterns: Iterable[str]) -> Accepts:
    """Accepts keys that match one of the patterns, in which `*` is any text and `?` any character.

    `fnmatch` compiles patterns that never backtrack to an earlier `*`. Otherwise a subscriber's pattern and a
    producer's key could together keep the server busy for ever.
    """
    wanted = re.compile("|".join(fnmatch.translate(each.replace("[", "[[]")) for each in patterns))
    return lambda key: wanted.match(key) is not None


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
