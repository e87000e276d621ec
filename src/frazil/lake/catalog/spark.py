"""Translates PyIceberg's settings into those of Iceberg's Java library, and names the jars that Spark needs.

This handles text only, and does not need Spark itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.lake.catalog.properties import NAME, resolve_properties, sql_url
from frazil.lake.catalog.storage import family

ICEBERG = "1.12.0"
RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG}"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRES = "org.postgresql:postgresql:42.7.7"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_JDBC = "org.apache.iceberg.jdbc.JdbcCatalog"
_GLUE = "org.apache.iceberg.aws.glue.GlueCatalog"
_FILE_IO = {
    "s3": "org.apache.iceberg.aws.s3.S3FileIO",
    "gs": "org.apache.iceberg.gcp.gcs.GCSFileIO",
    "az": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}
_BUNDLES = {"s3": "iceberg-aws-bundle", "gs": "iceberg-gcp-bundle", "az": "iceberg-azure-bundle"}

# These settings have another name in Java. All others have the same name in both.
_RENAMED: Mapping[str, str] = {
    "s3.region": "client.region",
    "adls.account-key": "adls.auth.shared-key.account.key",
    "adls.account-name": "adls.auth.shared-key.account.name",
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
}
# These settings are only for PyIceberg, or are translated below.
_LEFT_OUT = re.compile(
    r"type|uri|warehouse|py-.*|pool_pre_ping|echo|init_catalog_tables|schema_version|"
    r"s3\.(force-virtual-addressing|request-timeout|connect-timeout|retry-strategy-impl|proxy-uri|resolve-region)|"
    r"downcast-.*"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def spark_catalog_name(config: Config) -> str:
    """Return the catalog's name in Spark.

    A database catalog keeps tables under the name of the catalog that made them, so both names must agree there.
    """
    name, properties = resolve_properties(config)
    if properties["type"] != "sql":
        return NAME
    if not _NAME.fullmatch(name) or name == "spark_catalog":
        raise ConfigError(f"lake.catalog: {name!r} cannot be the name of a catalog in Spark; use letters and digits.")
    return name


def spark_settings(config: Config) -> dict[str, str]:
    """Return the settings that make the catalog known to a Spark session, secrets among them."""
    _, properties = resolve_properties(config)
    prefix = f"spark.sql.catalog.{spark_catalog_name(config)}"
    translate = _KINDS.get(properties["type"])
    if translate is None:
        raise ConfigError(f"lake.properties.type: Spark has no {properties['type']} catalog.")
    options = {"cache-enabled": "false"} | _common(properties) | translate(properties) | _files(properties)
    return {
        "spark.sql.extensions": EXTENSIONS,
        prefix: _CATALOG,
        **{f"{prefix}.{name}": value for name, value in sorted(options.items())},
    }


def required_packages(config: Config) -> list[str]:
    """Return the jars that Spark needs for this catalog and warehouse, as `group:artifact:version`."""
    _, properties = resolve_properties(config)
    bundles = {_BUNDLES[kind] for kind in _kinds_of_files(properties) if kind in _BUNDLES}
    if properties["type"] == "glue":
        bundles.add(_BUNDLES["s3"])
    packages = [RUNTIME, *(f"org.apache.iceberg:{bundle}:{ICEBERG}" for bundle in sorted(bundles))]
    if properties["type"] == "sql":
        packages.append(SQLITE if sql_url(properties).get_backend_name() == "sqlite" else POSTGRES)
    return packages


def _common(properties: Mapping[str, Any]) -> dict[str, str]:
    common = {
        _RENAMED.get(name, name): str(value)
        for name, value in properties.items()
        if not _LEFT_OUT.fullmatch(name) and not isinstance(value, dict)
    }
    if warehouse := properties.get("warehouse"):
        common["warehouse"] = str(warehouse)
    return common


def _sql(properties: Mapping[str, Any]) -> dict[str, str]:
    url = sql_url(properties)
    options = {"catalog-impl": _JDBC, "jdbc.schema-version": "V1"}
    if url.get_backend_name() == "sqlite":
        seconds = float(str(url.query.get("timeout", "5")))
        options["uri"] = f"jdbc:sqlite:{Path(url.database or '').absolute()}"
        options["jdbc.busy_timeout"] = str(round(seconds * 1000))
        return options
    port = f":{url.port}" if url.port else ""
    options["uri"] = f"jdbc:postgresql://{url.host or 'localhost'}{port}/{url.database or ''}"
    if url.username:
        options["jdbc.user"] = url.username
    if url.password:
        options["jdbc.password"] = str(url.password)
    if timeout := url.query.get("connect_timeout"):
        options["jdbc.connectTimeout"] = str(timeout)
    if mode := url.query.get("sslmode"):
        options["jdbc.sslmode"] = str(mode)
    return options


def _rest(properties: Mapping[str, Any]) -> dict[str, str]:
    options = {"type": "rest", "uri": str(properties["uri"])}
    auth = properties.get("auth")
    if isinstance(auth, dict):
        options |= _authentication(auth)
    return options


def _authentication(auth: Mapping[str, Any]) -> dict[str, str]:
    kind = auth.get("type")
    given = auth.get(str(kind), {}) if kind else {}
    if kind in {None, "noop"}:
        return {}
    if kind == "basic":
        return {
            "rest.auth.type": "basic",
            "rest.auth.basic.username": str(given.get("username", "")),
            "rest.auth.basic.password": str(given.get("password", "")),
        }
    if kind == "oauth2":
        return {
            "rest.auth.type": "oauth2",
            "credential": f"{given.get('client_id', '')}:{given.get('client_secret', '')}",
            "oauth2-server-uri": str(given.get("token_url", "")),
            **({"scope": str(given["scope"])} if "scope" in given else {}),
        }
    raise ConfigError(
        f"lake: Spark has no counterpart for auth.type {kind!r}; use token, credential, basic or oauth2."
    )


def _hive(properties: Mapping[str, Any]) -> dict[str, str]:
    return {"type": "hive", "uri": str(properties["uri"])}


def _glue(properties: Mapping[str, Any]) -> dict[str, str]:
    return {"catalog-impl": _GLUE}


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, str]]] = {
    "sql": _sql,
    "rest": _rest,
    "hive": _hive,
    "glue": _glue,
}


def _kinds_of_files(properties: Mapping[str, Any]) -> set[str]:
    """Return the kinds of storage that tables may be in, by the warehouse or by the settings for file access."""
    warehouse = str(properties.get("warehouse", ""))
    if "/" in warehouse:
        return {family(warehouse)}
    starts = {"s3": ("s3.", "client."), "gs": ("gcs.",), "az": ("adls.",)}
    return {kind for kind, names in starts.items() if any(str(name).startswith(names) for name in properties)}


def _files(properties: Mapping[str, Any]) -> dict[str, str]:
    kinds = _kinds_of_files(properties)
    if properties["type"] == "glue":
        kinds.add("s3")
    options: dict[str, str] = {}
    if len(kinds) == 1 and (implementation := _FILE_IO.get(next(iter(kinds)))):
        options["io-impl"] = implementation
    virtual = str(properties.get("s3.force-virtual-addressing")).lower() == "true"
    if "s3" in kinds and "s3.endpoint" in properties and not virtual:
        options["s3.path-style-access"] = "true"
    return options
