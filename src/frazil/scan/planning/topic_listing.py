"""Lists all objects of a topic at once, and answers the listings of a read from that.

So a read costs one listing, however many partitions there are. It also shows that the log was replaced by another.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from frazil.log import layout
from frazil.store import ObjectInfo, ObjectStore
from frazil.store.interface import check_prefix

_LOW = "low"


class LogReplaced(Exception):
    """Raised when objects that never change are others than before."""


class TopicListing:
    """Is the store as it was when it was listed last. Objects are read from the store itself.

    Belongs to one thread.
    """

    def __init__(self, store: ObjectStore, topic: str) -> None:
        self.store = store
        self._prefix = layout.topic_prefix(topic)
        self._objects: dict[str, ObjectInfo] = {}
        self._keys: list[str] = []

    @property
    def url(self) -> str:
        return self.store.url

    def refresh(self) -> None:
        """Lists the topic anew. Raises `LogReplaced` if the log is not the one that was listed before."""
        before = self._objects
        self._objects = {info.key: info for info in self.store.list(self._prefix)}
        self._keys = sorted(self._objects)
        if any(_differs(before[key], info) for key, info in self._objects.items() if key in before):
            raise LogReplaced(self._prefix)
        if any(not self._may_go(key) for key in before.keys() - self._objects.keys()):
            raise LogReplaced(self._prefix)

    def _may_go(self, key: str) -> bool:
        """Returns whether an object may be deleted while its topic goes on: only segments and marks are."""
        return layout.parse_segment(key) is not None or f"/{_LOW}/" in key

    def list(self, prefix: str, after: str | None = None) -> Iterator[ObjectInfo]:
        folder = f"{check_prefix(prefix)}/"
        if not folder.startswith(self._prefix):
            yield from self.store.list(prefix, after)
            return
        start = bisect_left(self._keys, folder) if after is None else bisect_right(self._keys, max(after, folder))
        for key in self._keys[start:]:
            if not key.startswith(folder):
                break
            yield self._objects[key]

    def list_folders(self, prefix: str) -> Sequence[str]:
        folder = f"{check_prefix(prefix)}/"
        if not folder.startswith(self._prefix):
            return self.store.list_folders(prefix)
        found = {
            folder + key[len(folder) :].partition("/")[0]
            for key in self._keys
            if key.startswith(folder) and "/" in key[len(folder) :]
        }
        return sorted(found)

    def get(self, key: str) -> pa.Buffer:
        return self.store.get(key)

    def get_range(self, key: str, start: int, length: int) -> pa.Buffer:
        return self.store.get_range(key, start, length)

    def get_tail(self, key: str, length: int) -> tuple[pa.Buffer, int]:
        return self.store.get_tail(key, length)

    def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
        self.store.put_new(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        self.store.delete(keys)


def _differs(before: ObjectInfo, now: ObjectInfo) -> bool:
    return before.size != now.size or before.modified != now.modified
