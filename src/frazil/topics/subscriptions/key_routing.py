"""Which consumer has which routing key, and which it wants."""

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
"""Whether a consumer wants messages of a key."""

POINTS = 100
"""Places of each consumer on the ring; the more, the more even their shares."""


def key_runs(batch: pa.RecordBatch) -> Iterator[tuple[str, int, int]]:
    """Neighbours of one key: key, first row and the row after the last. Without a key, the producer's name is it."""
    keys = pc.coalesce(batch.column("routing_key"), batch.column("producer_name"), pa.scalar(""))
    encoded = keys.dictionary_encode()
    indices = encoded.indices.to_numpy()
    borders = [0, *(np.flatnonzero(np.diff(indices)) + 1).tolist(), len(indices)]
    names = encoded.dictionary.to_pylist()
    for start, end in pairwise(borders):
        if start < end:
            yield names[indices[start]], start, end


class HashRing:
    """Each name has its points on a ring; a key belongs to the next point. A name that comes or goes moves only the
    keys that it gets or had."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        points = sorted((_hash(f"{name}/{number}"), name) for name in names for number in range(POINTS))
        self._points = [point for point, _ in points]
        self._names = [name for _, name in points]

    def owner(self, key: str, among: Collection[str] | None = None) -> str | None:
        """Of these names only, if they are given."""
        if not self._points or (among is not None and not among):
            return None
        place = bisect_right(self._points, _hash(key)) % len(self._points)
        while among is not None and self._names[place] not in among:
            place = (place + 1) % len(self._points)
        return self._names[place]


def one_of(patterns: Iterable[str]) -> Accepts:
    """Keys that match one of the patterns, in which `*` is any text and `?` any character.

    `fnmatch` makes patterns that never go back to an earlier `*`: who subscribes chooses the pattern and who produces
    the key, and together they could otherwise keep the server busy for ever.
    """
    wanted = re.compile("|".join(fnmatch.translate(each.replace("[", "[[]")) for each in patterns))
    return lambda key: wanted.match(key) is not None


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
