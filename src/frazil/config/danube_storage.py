"""Translates the settings of Danube's Iceberg storage to Frazil's own.

`storage: {type: iceberg, iceberg_config: {catalog, object_store, warehouse, wal, writer, reader}}` says the same by
other names, in sections or flat. Each setting is moved to the key that it stands for, and keeps its line in the file
for error messages. A setting without a counterpart is a problem: nothing is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from frazil.config.danube_storage_keys import (
    COUNTERPARTS,
    FLAT_KEYS,
    SCHEMES,
    STORE_LOCATION,
    WITHOUT_COUNTERPART,
    Counterpart,
)
from frazil.config.setting_tree import KeyPath, dotted
from frazil.config.yaml_file import Document, described

ROOT = "storage"
_CONFIG = (ROOT, "iceberg_config")
_SECTIONS = ("catalog", "object_store", "wal", "writer", "reader")
_CATALOG_PROPERTIES = ("catalog", "properties")
"""Settings below this key have PyIceberg's names, as in `lake.properties`."""


@dataclass(frozen=True)
class _GivenSetting:
    path: KeyPath
    """This is the path that the setting has in the form with sections."""
    where: KeyPath
    """This is the path that the setting has in the file."""
    value: object


def translate_storage(document: Document) -> None:
    """Replace `storage` by Frazil's own settings.

    Unknown settings, and settings that are given twice, are problems.
    """
    storage = document.values.pop(ROOT, None)
    if storage is None:
        return
    if not isinstance(storage, dict) or set(storage) - {"type", "iceberg_config"}:
        _problem(document, (ROOT,), "must have the keys type and iceberg_config, as Danube's storage has them")
        return
    if storage.get("type", "iceberg") != "iceberg":
        _problem(document, (ROOT, "type"), f"{described(storage['type'])} is not allowed; allowed: iceberg")
    sections = storage.get("iceberg_config") or {}
    if not isinstance(sections, dict):
        _problem(document, _CONFIG, f"must be a mapping with the keys {', '.join(_SECTIONS)} and warehouse")
        return
    everything: dict[KeyPath, _GivenSetting] = {}
    for given in _given(document, sections):
        if (other := everything.get(given.path)) is not None:
            _problem(
                document, given.where, f"{dotted(other.where)} means the same and is given too; keep one of them"
            )
        everything[given.path] = given
    place = {given.path[1]: given for given in everything.values() if _is_store_location(given.path)}
    if place:
        _set_store_url(document, place, everything.get(("warehouse",)))
    for given in everything.values():
        if not _is_store_location(given.path):
            _translate(document, given)


def _given(document: Document, sections: dict[str, object]) -> Iterator[_GivenSetting]:
    """Yields all settings, whichever form they have."""
    for name, value in sections.items():
        where = (*_CONFIG, name)
        if (path := FLAT_KEYS.get(name)) is not None:
            yield _GivenSetting(path, where, value)
        elif name == "warehouse":
            yield _GivenSetting((name,), where, value)
        elif name not in _SECTIONS:
            known = ", ".join((*_SECTIONS, "warehouse"))
            _problem(document, where, f"unknown key; known are {known}, and in the flat form {', '.join(FLAT_KEYS)}")
        elif isinstance(value, dict):
            for key, below in value.items():
                if (name, key) == _CATALOG_PROPERTIES and isinstance(below, dict):
                    yield from (
                        _GivenSetting((*_CATALOG_PROPERTIES, each), (*where, key, each), one)
                        for each, one in below.items()
                    )
                else:
                    yield _GivenSetting((name, key), (*where, key), below)
        elif value is not None:
            _problem(document, where, f"must be a mapping, not {described(value)}")


def _is_store_location(path: KeyPath) -> bool:
    return path[0] == "object_store" and path[1] in STORE_LOCATION


def _translate(document: Document, given: _GivenSetting) -> None:
    path = given.path
    counterpart = (
        Counterpart(("lake", "properties", path[-1])) if path[:-1] == _CATALOG_PROPERTIES else COUNTERPARTS.get(path)
    )
    if path in WITHOUT_COUNTERPART:
        _problem(document, given.where, f"has no counterpart; {WITHOUT_COUNTERPART[path]}")
    elif counterpart is not None:
        _set(document, counterpart, given.value, given.where)
    elif path == _CATALOG_PROPERTIES:
        _problem(document, given.where, f"must be a mapping, not {described(given.value)}")
    else:
        known = [each[-1] for each in COUNTERPARTS if each[:-1] == path[:-1]]
        known += {"object_store": STORE_LOCATION, "catalog": _CATALOG_PROPERTIES[1:]}.get(path[0], ())
        _problem(document, given.where, f"unknown key; known are {', '.join(known)}")


def _set_store_url(document: Document, place: Mapping[str, _GivenSetting], warehouse: _GivenSetting | None) -> None:
    """Set `store.url` from the settings that say together where the store is."""
    some = next(iter(place.values()))
    section = some.where if some.where[-1] in FLAT_KEYS else some.where[:-1]
    for given in place.values():
        if not isinstance(given.value, str):
            _problem(document, given.where, f"{described(given.value)} is not allowed; allowed: text")
            return
    kind, bucket, prefix, path = (str(place[name].value) if name in place else "" for name in STORE_LOCATION)
    if kind == "local":
        unfit, url = ["bucket", "prefix"], path
        needed = "a local store needs its path"
    elif kind in SCHEMES:
        unfit = ["path"]
        if not bucket and warehouse is not None:
            # Danube takes the bucket of the warehouse, too, when none is named.
            parts = urlsplit(str(warehouse.value))
            bucket = parts.netloc if SCHEMES.get(parts.scheme) == SCHEMES[kind] else ""
        url = "/".join(part for part in (f"{SCHEMES[kind]}://{bucket}", prefix.strip("/")) if part) if bucket else ""
        needed = f"a store of type {kind} needs its bucket, or a warehouse in one"
    else:
        at = place["type"].where if "type" in place else section
        text = f"{kind!r} is not allowed" if "type" in place else "needs its type"
        _problem(document, at, f"{text}; allowed: local, {', '.join(SCHEMES)}")
        return
    for name in unfit:
        if name in place:
            _problem(document, place[name].where, f"means nothing for a store of type {kind}; leave it out")
    if not url:
        _problem(document, section, needed)
        return
    of = place.get("path" if kind == "local" else "bucket", some)
    _set(document, Counterpart(("store", "url")), url, of.where)


def _set(document: Document, counterpart: Counterpart, value: object, where: KeyPath) -> None:
    if not isinstance(value, str):
        _problem(document, where, f"{described(value)} is not allowed; leave it out, or give a value")
        return
    try:
        converted = counterpart.convert(value)
    except ValueError as error:
        _problem(document, where, f"{value!r} is not allowed; allowed: {error}")
        return
    *path, key = counterpart.key
    values = document.values
    for part in path:
        below = values.setdefault(part, {})
        if below is None:
            below = values[part] = {}
        if not isinstance(below, dict):
            return
        values = below
    if key in values:
        _problem(document, where, f"{dotted(counterpart.key)} means the same and is given too; keep one of them")
        return
    values[key] = converted
    if where in document.origins:
        document.origins[counterpart.key] = f"{dotted(where)}, {document.origins[where]}"


def _problem(document: Document, path: KeyPath, text: str) -> None:
    at = path
    while at and at not in document.origins:
        at = at[:-1]
    document.problems.append(f"{dotted(path)}: {text}" + (f" ({document.origins[at]})" if at else ""))
