"""Finds the catalog and its settings: PyIceberg's own come first, then `lake.properties`, then defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyiceberg.typedef import Properties
from pyiceberg.utils.config import Config as PyIcebergConfig
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from frazil.config.model import Config
from frazil.config.redaction import masked
from frazil.disk.durable import make_folder
from frazil.errors import ConfigError, FrazilIoError
from frazil.lake.catalog.storage import family, reach, warehouse_location

NAME = "frazil"
"""A catalog that nobody named has this name."""

CATALOG_FILE = "catalog.db"
DURABLE_IO = "frazil.lake.catalog.durable_io.DurableFileIO"

_SCHEMES = {"rest": ("http", "https"), "hive": ("thrift",), "sql": ("sqlite", "postgresql")}
_TYPES = ("rest", "sql", "hive", "glue", "dynamodb", "bigquery", "in-memory")


def resolve_properties(config: Config) -> tuple[str, Properties]:
    """Return the catalog's name and all its settings, secrets among them."""
    name, given = _from_pyiceberg(config.lake.catalog)
    properties: dict[str, Any] = given | config.lake.properties
    if not ("type" in properties or "uri" in properties or "py-catalog-impl" in properties):
        if config.lake.catalog is not None:
            raise ConfigError(
                f"lake.catalog: PyIceberg's settings (.pyiceberg.yaml, PYICEBERG_CATALOG__*) have no catalog "
                f"{name!r}. Add it there, or give its type and uri in lake.properties."
            )
        properties |= {"type": "sql", "uri": _embedded_uri(config)}
    kind = catalog_type(properties)
    properties["type"] = kind
    _check_address(kind, str(properties.get("uri", "")))
    if kind == "sql":
        properties.setdefault("warehouse", warehouse_location(config))
        _set_timeouts(properties, config.lake.timeout_seconds)
    _set_file_access(properties, config)
    return name, properties


def catalog_type(properties: Properties) -> str:
    if kind := properties.get("type"):
        if str(kind).lower() not in _TYPES:
            raise ConfigError(f"lake.properties.type: {kind!r} is not known; use {', '.join(_TYPES[:4])}.")
        return str(kind).lower()
    uri = str(properties.get("uri", ""))
    for start, kind in (("http", "rest"), ("thrift", "hive"), ("sqlite", "sql"), ("postgresql", "sql")):
        if uri.startswith(start):
            return kind
    raise ConfigError("lake.properties: the uri does not tell what kind of catalog this is; give its type.")


def _check_address(kind: str, uri: str) -> None:
    schemes = _SCHEMES.get(kind)
    if uri and schemes and re.split(r"[:+]", uri, maxsplit=1)[0].lower() not in schemes:
        begins = " or ".join(f"{scheme}:" for scheme in schemes)
        raise ConfigError(
            f"lake.properties.uri: the address of a catalog of type {kind} begins with {begins}, not {masked(uri)!r}."
        )


def sql_url(properties: Mapping[str, Any]) -> URL:
    try:
        return make_url(properties["uri"])
    except (ArgumentError, KeyError) as error:
        raise ConfigError("lake.properties.uri: write sqlite:///file or postgresql://user@host/database.") from error


def _from_pyiceberg(wanted: str | None) -> tuple[str, dict[str, Any]]:
    try:
        settings = PyIcebergConfig()
        name = wanted or settings.get_default_catalog_name()
        given = settings.get_catalog_config(name)
    # The YAML reader of PyIceberg raises errors of its own.
    except Exception as error:
        raise ConfigError(f"PyIceberg's settings cannot be read: {str(error).splitlines()[0]}") from error
    if wanted is None and given is None:
        return NAME, {}
    return name, dict(given or {})


def _embedded_uri(config: Config) -> str:
    folder = config.data_dir.absolute()
    try:
        make_folder(folder)
    except OSError as error:
        raise FrazilIoError(f"{folder}: the folder of the catalog cannot be made: {error.strerror}.") from error
    return f"sqlite:///{folder / CATALOG_FILE}"


def _set_timeouts(properties: dict[str, Any], seconds: float) -> None:
    """Set timeouts, so that no statement waits for ever, and none gives up while somebody else commits."""
    url = sql_url(properties)
    query = dict(url.query)
    if url.get_backend_name() == "sqlite":
        query.setdefault("timeout", str(seconds))
    elif url.get_backend_name() == "postgresql":
        query.setdefault("connect_timeout", str(max(1, round(seconds))))
        query.setdefault("options", f"-c statement_timeout={round(seconds * 1000)}")
        properties.setdefault("pool_pre_ping", "true")
    properties["uri"] = url.set(query=query).render_as_string(hide_password=False)


def _set_file_access(properties: dict[str, Any], config: Config) -> None:
    warehouse = str(properties.get("warehouse", ""))
    kind = family(warehouse) if "/" in warehouse else None
    if kind == "file":
        properties.setdefault("py-io-impl", DURABLE_IO)
    elif kind is None and properties["type"] == "rest":
        # The server has its own name for the place, and its settings for file access win over these.
        kind = family(config.store.url or "")
    if kind:
        properties |= reach(config.store, kind, properties)
