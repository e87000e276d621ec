"""Checks that a store has create-only puts, on which the log is built."""

from __future__ import annotations

from frazil.errors import ObjectExists, StorageError
from frazil.store.interface import ObjectStore


def check_create_only(store: ObjectStore, name: str) -> None:
    """Raise when the store overwrites an object that a create-only put should have found.

    Some servers that speak S3 ignore `If-None-Match`; on them two writers would replace each other's segments.
    """
    key = f"probe/{name}"
    store.put_new(key, b"first")
    try:
        store.put_new(key, b"second")
    except ObjectExists:
        return
    finally:
        store.delete([key])
    raise StorageError(
        f"{store.url} ignores create-only puts (`If-None-Match: *`), so two writers could overwrite each other. Use "
        f"a server that supports conditional writes."
    )
