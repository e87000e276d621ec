"""The interface of an object store, as the log needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from frazil.errors import StorageError


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Immutable objects under keys like `queue/logs/00000/00000000000000000000.parquet`.

    Methods block and may be called from any thread. `StorageUnavailable` may pass by itself and leaves the
    outcome of the call unknown: a put that raises it may have stored its object, or may still do so.
    A `prefix` is a folder (`queue/logs` finds `queue/logs/x`, never `queue/logs-2/x`); `""` is the whole store.
    """

    @property
    def url(self) -> str:
        """The address of the store for messages, without secrets."""

    def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
        """Store a new object, whole and durable, or raise `ObjectExists` and leave the one that is there.

        The object that exists may be our own: a request is repeated when its reply was lost.
        """

    def get(self, key: str) -> pa.Buffer:
        """Return the whole object. Raises `ObjectNotFound` if there is none."""

    def get_range(self, key: str, start: int, length: int) -> pa.Buffer:
        """Return `length` bytes from `start` on, fewer where the object ends."""

    def get_tail(self, key: str, length: int) -> tuple[pa.Buffer, int]:
        """Return the last `length` bytes (all, if there are fewer) and the size of the whole object."""

    def list(self, prefix: str, after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield all objects under `prefix` in the order of their keys, page by page; with `after`, those behind it.

        S3 servers that keep a tree (SeaweedFS) order folders by name, so `a/x` comes before `a-b/x` there. Within
        one folder all agree: use `after` only with a key that lies directly in `prefix`.
        """

    def list_folders(self, prefix: str) -> Sequence[str]:
        """Return the folders directly under `prefix`, each usable as a prefix, in order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that do not exist are no error."""


def check_key(key: str) -> str:
    """Return the key, or raise `StorageError` if it could name something else, here or on another kind of store."""
    parts = key.split("/")
    if any(part in {"", ".", ".."} for part in parts) or not key.isprintable() or "\\" in key:
        raise StorageError(
            f"{key!r} cannot be the key of an object: it must be names joined by '/', without '..', '\\' or "
            "control characters, and must not begin or end with '/'."
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix without a slash at its end, checked like a key."""
    trimmed = prefix.removesuffix("/")
    return check_key(trimmed) if trimmed else ""


def check_range(start: int, length: int) -> None:
    if start < 0 or length <= 0:
        raise ValueError(f"a range needs start >= 0 and length > 0, not {start} and {length}")
