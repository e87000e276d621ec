"""Translates the object store's settings into those of Iceberg's file access.

Tables are beside the log unless the settings say otherwise, so what opens the store opens the warehouse too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from frazil.config.model import Config
from frazil.config.sections.log import StoreConfig
from frazil.errors import ConfigError

WAREHOUSE = "warehouse"

# The `obstore` package has these names for each setting.
_S3_OPTIONS = {
    "s3.endpoint": ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"),
    "s3.region": ("region", "aws_region", "default_region", "aws_default_region"),
    "s3.access-key-id": ("access_key_id", "aws_access_key_id"),
    "s3.secret-access-key": ("secret_access_key", "aws_secret_access_key"),
    "s3.session-token": ("session_token", "aws_session_token", "token", "aws_token"),
}
_VIRTUAL_HOSTS = ("virtual_hosted_style_request", "aws_virtual_hosted_style_request")
_ACCOUNT = ("account_name", "azure_storage_account_name")

# If any of these is given, somebody has set up the access to the warehouse already.
_REACH: Mapping[str, tuple[str, ...]] = {
    "s3": (*_S3_OPTIONS, "s3.profile-name", "s3.role-arn", "s3.anonymous", "s3.signer", "s3.remote-signing-enabled"),
    "gs": ("gcs.oauth2.token", "gcs.service.host", "gcs.project-id"),
    "az": ("adls.account-name", "adls.account-key", "adls.sas-token", "adls.connection-string", "adls.client-id"),
}
_FAMILIES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "wasbs": "az",
}


def family(location: str) -> str:
    """Return `file`, `s3`, `gs`, `az`, or the scheme itself when it is none of these."""
    scheme = urlsplit(location).scheme
    if scheme in {"", "file"}:
        return "file"
    return _FAMILIES.get(scheme, scheme)


def store_location(config: Config) -> str:
    """Return the location of the store as Iceberg writes it."""
    url = config.store.url
    if url is None:
        return _folder(config.data_dir / "store")
    if "://" not in url:
        return _folder(Path(url))
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _folder(Path(url2pathname(parts.path)))
    if parts.scheme == "az":
        # Iceberg needs the long name of an Azure container.
        account = config.store.access_key_id or _first(config.store.options, _ACCOUNT)
        if not account:
            raise ConfigError("store.access_key_id: az:// needs the name of the storage account for tables.")
        return f"abfss://{parts.netloc}@{account}.dfs.core.windows.net{parts.path.rstrip('/')}"
    return url.rstrip("/")


def warehouse_location(config: Config) -> str:
    return f"{store_location(config)}/{WAREHOUSE}"


def reach(config: StoreConfig, kind: str, given: Mapping[str, object]) -> dict[str, str]:
    """Return the store's settings for file access to such a warehouse, or nothing if `given` has some already."""
    store_kind = urlsplit(config.url or "").scheme
    if store_kind != kind or any(name in given for name in _REACH.get(kind, ())):
        return {}
    if kind == "s3":
        return _reach_s3(config)
    if kind == "gs":
        return {"gcs.oauth2.token": token} if (token := _secret(config, "session_token")) else {}
    found = {
        "adls.account-name": config.access_key_id or _first(config.options, _ACCOUNT),
        "adls.account-key": _secret(config, "secret_access_key"),
        "adls.sas-token": _secret(config, "session_token"),
    }
    return {name: value for name, value in found.items() if value}


def _reach_s3(config: StoreConfig) -> dict[str, str]:
    found = {name: _first(config.options, names) for name, names in _S3_OPTIONS.items()}
    found["s3.access-key-id"] = config.access_key_id or found["s3.access-key-id"]
    found["s3.secret-access-key"] = _secret(config, "secret_access_key") or found["s3.secret-access-key"]
    found["s3.session-token"] = _secret(config, "session_token") or found["s3.session-token"]
    if found["s3.endpoint"]:
        # Without a region PyIceberg asks Amazon for it, even if the server is not Amazon's.
        found["s3.region"] = found["s3.region"] or "us-east-1"
        virtual = (_first(config.options, _VIRTUAL_HOSTS) or "false").lower()
        found["s3.force-virtual-addressing"] = "true" if virtual in {"true", "1", "yes", "on"} else "false"
    found["s3.request-timeout"] = str(config.timeout_seconds)
    found["s3.connect-timeout"] = str(min(5.0, config.timeout_seconds))
    return {name: value for name, value in found.items() if value}


def _first(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((options[name] for name in names if name in options), None)


def _secret(config: StoreConfig, name: str) -> str | None:
    value = getattr(config, name)
    return value.get_secret_value() if value is not None else None


def _folder(path: Path) -> str:
    path = path.absolute()
    if any(mark in str(path) for mark in "#?%"):
        raise ConfigError(f"{path}: tables cannot be in a folder whose name has '#', '?' or '%'; choose another.")
    return f"file://{path}"
