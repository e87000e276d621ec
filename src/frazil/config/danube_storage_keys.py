"""Maps each setting of Danube's Iceberg storage to the setting of Frazil that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from frazil.config.setting_tree import KeyPath

_MIB = 1024 * 1024


class Counterpart(NamedTuple):
    """The key of Frazil that a setting stands for, and how its value is converted."""

    key: KeyPath
    convert: Callable[[str], str] = str
    note: str = ""
    """The reference shows this note beside the setting."""


def _mebibytes(text: str) -> str:
    return str(-(-_number(text) // _MIB))


def _seconds(text: str) -> str:
    return str(_number(text) / 1000)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("whole number")
    return int(text)


def _boolean(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.lower())
    if found is None:
        raise ValueError("true or false")
    return found


def _normalized_boolean(text: str) -> str:
    return str(_boolean(text)).lower()


def _negated(text: str) -> str:
    return str(not _boolean(text)).lower()


def _sync(text: str) -> str:
    return {"never": "none"}.get(text, text)


def _catalog(text: str) -> str:
    if text not in {"rest", "glue"}:
        raise ValueError("rest, glue; for others set lake.properties")
    return text


COUNTERPARTS: Mapping[KeyPath, Counterpart] = {
    ("catalog", "type"): Counterpart(("lake", "properties", "type"), _catalog, "`rest` or `glue`"),
    ("catalog", "uri"): Counterpart(("lake", "properties", "uri")),
    ("catalog", "token"): Counterpart(("lake", "properties", "token")),
    ("catalog", "region"): Counterpart(("lake", "properties", "glue.region")),
    ("catalog", "profile"): Counterpart(("lake", "properties", "glue.profile-name")),
    ("catalog", "database"): Counterpart(("lake", "namespace"), note="of topics whose name has none"),
    ("warehouse",): Counterpart(("lake", "properties", "warehouse")),
    ("object_store", "region"): Counterpart(("store", "options", "region")),
    ("object_store", "endpoint"): Counterpart(("store", "options", "endpoint")),
    ("object_store", "path_style"): Counterpart(
        ("store", "options", "virtual_hosted_style_request"), _negated, "the opposite"
    ),
    ("object_store", "allow_anonymous"): Counterpart(("store", "options", "skip_signature"), _normalized_boolean),
    ("object_store", "access_key_id"): Counterpart(("store", "access_key_id")),
    ("object_store", "secret_access_key"): Counterpart(("store", "secret_access_key")),
    ("object_store", "secret_access_key_file"): Counterpart(("store", "secret_access_key_file")),
    ("wal", "base_path"): Counterpart(("data_dir",)),
    ("wal", "max_file_size"): Counterpart(("log", "max_file_size_mb"), _mebibytes, "bytes, rounded up to MiB"),
    ("wal", "sync_mode"): Counterpart(("log", "sync"), _sync, "`never` is `none`"),
    ("writer", "batch_size"): Counterpart(("pipeline", "flush_batch_size")),
    ("writer", "flush_interval_ms"): Counterpart(("pipeline", "flush_interval_seconds"), _seconds, "in seconds"),
    ("writer", "max_memory_bytes"): Counterpart(("pipeline", "max_size_mb"), _mebibytes, "bytes, rounded up to MiB"),
    ("reader", "poll_interval_ms"): Counterpart(("pipeline", "poll_interval_ms")),
    ("reader", "max_concurrent_reads"): Counterpart(("messages", "max_concurrent_reads")),
    ("reader", "prefetch_size"): Counterpart(("messages", "prefetch_size")),
}
"""These settings have counterparts of their own; those of `STORE_LOCATION` stand together for `store.url`."""

STORE_LOCATION = ("type", "bucket", "prefix", "path")
"""These keys of `object_store` say where the store is."""
SCHEMES = {"s3": "s3", "minio": "s3", "gcs": "gs", "gs": "gs", "azure": "az", "az": "az"}

FLAT_KEYS: Mapping[str, KeyPath] = {
    "catalog_type": ("catalog", "type"),
    "catalog_uri": ("catalog", "uri"),
    "warehouse_path": ("warehouse",),
    "object_store_type": ("object_store", "type"),
    "region": ("object_store", "region"),
    "endpoint": ("object_store", "endpoint"),
    "path_style": ("object_store", "path_style"),
    "profile": ("object_store", "profile"),
    "allow_anonymous": ("object_store", "allow_anonymous"),
    "local_path": ("object_store", "path"),
    "wal_path": ("wal", "base_path"),
    "wal_segment_size": ("wal", "max_file_size"),
    "wal_sync_mode": ("wal", "sync_mode"),
    "writer_batch_size": ("writer", "batch_size"),
    "writer_flush_interval_ms": ("writer", "flush_interval_ms"),
    "writer_max_memory_bytes": ("writer", "max_memory_bytes"),
    "reader_poll_interval_ms": ("reader", "poll_interval_ms"),
    "reader_prefetch_batches": ("reader", "prefetch_size"),
}
"""Maps the keys of the flat form to those of the form with sections."""

WITHOUT_COUNTERPART: Mapping[KeyPath, str] = {
    ("object_store", "profile"): "give access_key_id and secret_access_key, or secret_access_key_file",
    ("object_store", "properties"): "give them as store.options, by the names of the `obstore` package, and as "
    "lake.properties, by the names of PyIceberg",
}
"""These settings have no counterpart. The text says what to do instead."""
