"""The settings of Danube's Iceberg storage, understood as Frazil's own.

`storage: {type: iceberg, iceberg_config: {catalog, object_store, wal, writer, reader}}` says the same things by other
names. Each becomes the key it means, and keeps its line in the file for whatever is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from frazil.config.keys import KeyPath, dotted
from frazil.config.yamlfile import Document, described

ROOT = "storage"
_CONFIG = (ROOT, "iceberg_config")
_MIB = 1024 * 1024
_SCHEMES = {"s3": "s3", "minio": "s3", "gcs": "gs", "gs": "gs", "azure": "az", "az": "az"}


class _Meaning(NamedTuple):
    """The key that a setting stands for, and how its value is said there."""

    key: KeyPath
    said: Callable[[str], str] = str


def _mebibytes(text: str) -> str:
    return str(-(-int(text) // _MIB))


def _seconds(text: str) -> str:
    return str(int(text) / 1000)


def _sync(text: str) -> str:
    return {"never": "none"}.get(text, text)


_MEANINGS: Mapping[KeyPath, _Meaning] = {
    ("wal", "base_path"): _Meaning(("data_dir",)),
    ("wal", "max_file_size"): _Meaning(("log", "max_file_size_mb"), _mebibytes),
    ("wal", "sync_mode"): _Meaning(("log", "sync"), _sync),
    ("writer", "batch_size"): _Meaning(("pipeline", "flush_batch_size")),
    ("writer", "flush_interval_ms"): _Meaning(("pipeline", "flush_interval_seconds"), _seconds),
    ("writer", "max_memory_bytes"): _Meaning(("pipeline", "max_size_mb"), _mebibytes),
    ("reader", "poll_interval_ms"): _Meaning(("pipeline", "poll_interval_ms")),
    ("reader", "max_concurrent_reads"): _Meaning(("messages", "max_concurrent_reads")),
    ("reader", "prefetch_size"): _Meaning(("messages", "prefetch_size")),
    ("object_store", "region"): _Meaning(("store", "options", "region")),
    ("object_store", "endpoint"): _Meaning(("store", "options", "endpoint")),
    ("object_store", "access_key_id"): _Meaning(("store", "access_key_id")),
    ("object_store", "secret_access_key"): _Meaning(("store", "secret_access_key")),
}
_PLACE = ("type", "bucket", "prefix", "path")
_SECTIONS = ("catalog", "object_store", "wal", "writer", "reader")


def understand_storage(document: Document) -> None:
    """Replace `storage` by what it means. What is not known there is a problem, as is what is given twice."""
    given = document.values.pop(ROOT, None)
    if given is None:
        return
    if not isinstance(given, dict) or set(given) - {"type", "iceberg_config"}:
        _problem(document, (ROOT,), "must have the keys type and iceberg_config, as Danube's storage has them")
        return
    if given.get("type", "iceberg") != "iceberg":
        _problem(document, (ROOT, "type"), f"{described(given['type'])} is not allowed; allowed: iceberg")
    sections = given.get("iceberg_config") or {}
    if not isinstance(sections, dict):
        _problem(document, _CONFIG, f"must be a mapping with the keys {', '.join(_SECTIONS)}")
        return
    for name, section in sections.items():
        where = (*_CONFIG, name)
        if name not in _SECTIONS:
            _problem(document, where, f"unknown key; known are {', '.join(_SECTIONS)}")
        elif section is not None and not isinstance(section, dict):
            _problem(document, where, f"must be a mapping, not {described(section)}")
        elif section:
            _understand(document, name, section)


def _understand(document: Document, name: str, section: dict[str, object]) -> None:
    if name == "object_store":
        _place(document, {key: value for key, value in section.items() if key in _PLACE})
        section = {key: value for key, value in section.items() if key not in _PLACE}
    for key, value in section.items():
        where = (*_CONFIG, name, key)
        # A catalog's settings have PyIceberg's names in both.
        meaning = _Meaning(("lake", "properties", key)) if name == "catalog" else _MEANINGS.get((name, key))
        if meaning is None:
            known = [each for section_name, each in _MEANINGS if section_name == name]
            known += _PLACE if name == "object_store" else []
            _problem(document, where, f"unknown key; known are {', '.join(known)}")
        elif not isinstance(value, str):
            _problem(document, where, f"{described(value)} is not allowed")
        else:
            _set(document, meaning, value, where)


def _place(document: Document, given: dict[str, object]) -> None:
    where = (*_CONFIG, "object_store")
    kind, bucket, prefix, path = (str(given.get(name) or "") for name in _PLACE)
    if kind == "local":
        if not path:
            _problem(document, where, "a local store needs its path")
        else:
            _set(document, _Meaning(("store", "url")), path, (*where, "path"))
    elif kind not in _SCHEMES:
        _problem(document, (*where, "type"), f"{kind!r} is not allowed; allowed: local, {', '.join(_SCHEMES)}")
    elif not bucket:
        _problem(document, where, f"a store of type {kind} needs its bucket")
    else:
        url = "/".join(part for part in (f"{_SCHEMES[kind]}://{bucket}", prefix.strip("/")) if part)
        _set(document, _Meaning(("store", "url")), url, (*where, "bucket"))


def _set(document: Document, meaning: _Meaning, value: str, where: KeyPath) -> None:
    try:
        said = meaning.said(value)
    except ValueError:
        _problem(document, where, f"{value!r} is not allowed; allowed: whole number")
        return
    *path, key = meaning.key
    values = document.values
    for part in path:
        below = values.setdefault(part, {})
        if below is None:
            below = values[part] = {}
        if not isinstance(below, dict):
            return
        values = below
    if key in values:
        _problem(document, where, f"{dotted(meaning.key)} means the same and is given too; keep one of them")
        return
    values[key] = said
    if where in document.origins:
        document.origins[meaning.key] = f"{dotted(where)}, {document.origins[where]}"


def _problem(document: Document, path: KeyPath, text: str) -> None:
    at = path
    while at and at not in document.origins:
        at = at[:-1]
    document.problems.append(f"{dotted(path)}: {text}" + (f" ({document.origins[at]})" if at else ""))
