"""Opens the store that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, S3Store

from frazil.config.sections.log import StoreConfig
from frazil.errors import ConfigError
from frazil.store.cloud import CloudStore
from frazil.store.interface import ObjectStore
from frazil.store.local import LocalStore

# There are few retries here, because the writer retries with its own backoff and reports it.
_MAX_RETRIES = 2

_STORES: Mapping[str, type[S3Store] | type[GCSStore] | type[AzureStore]] = {
    "s3": S3Store,
    "gs": GCSStore,
    "az": AzureStore,
}

# The names of the three credentials by provider. A setting without a name has no meaning for the provider.
_CREDENTIALS = {
    "s3": {
        "access_key_id": "access_key_id",
        "secret_access_key": "secret_access_key",
        "session_token": "session_token",
    },
    "gs": {"secret_access_key": "service_account_key", "session_token": "bearer_token"},
    "az": {"access_key_id": "account_name", "secret_access_key": "account_key", "session_token": "sas_key"},
}

_ENDPOINT_OPTIONS = ("endpoint", "base_url", "aws_endpoint_url_s3")


def open_store(config: StoreConfig, data_dir: Path, *, read_only: bool = False) -> ObjectStore:
    """`read_only` opens a folder so that reading it costs no syncs."""
    url = config.url
    if url is None:
        return _open_folder(data_dir / "store", config, read_only)
    if "://" not in url:
        return _open_folder(Path(url), config, read_only)
    scheme = urlsplit(url).scheme
    if scheme == "file":
        return _open_folder(_folder_of(url), config, read_only)
    if scheme in _STORES:
        return _open_bucket(scheme, url, config)
    raise ConfigError(f"store.url: {scheme}:// is not known; use s3://, gs://, az://, file:// or a folder.")


def _open_folder(folder: Path, config: StoreConfig, read_only: bool) -> LocalStore:
    if config.options:
        raise ConfigError(f"store.options.{next(iter(config.options))}: a folder has no options.")
    return LocalStore(folder.absolute(), read_only=read_only)


def _folder_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path:
        raise ConfigError(f"store.url: {url} is no folder on this machine; write file:///folder.")
    return Path(url2pathname(parts.path))


def _open_bucket(scheme: str, url: str, config: StoreConfig) -> CloudStore:
    parts = urlsplit(url)
    bucket, prefix = parts.netloc, parts.path.strip("/")
    if not bucket or "@" in bucket or parts.query or parts.fragment:
        raise ConfigError(
            f"store.url: write {scheme}://bucket or {scheme}://bucket/prefix; credentials and options have their "
            "own settings."
        )
    settings = dict(config.options) | _credentials(scheme, config)
    timeout = timedelta(seconds=config.timeout_seconds)
    allow_http = any(config.options.get(name, "").startswith("http://") for name in _ENDPOINT_OPTIONS)
    # The typed dictionaries differ by provider, the call does not.
    make: Any = _STORES[scheme]
    try:
        store = make(
            bucket,
            prefix=prefix or None,
            config=settings,
            client_options={
                "timeout": timeout,
                "connect_timeout": min(timeout, timedelta(seconds=5)),
                **({"allow_http": True} if allow_http else {}),
            },
            # A retry that starts at the end of half the time still has the other half and as much again.
            retry_config={
                "max_retries": _MAX_RETRIES,
                "retry_timeout": timeout / 2,
                "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1)},
            },
        )
    except UnknownConfigurationKeyError as error:
        unknown = next((name for name in config.options if f"'{name}'" in str(error)), "?")
        raise ConfigError(f"store.options.{unknown}: {scheme}:// has no such option.") from error
    except (BaseError, ValueError) as error:
        raise ConfigError(f"store: {str(error).splitlines()[0]} ({scheme}://{bucket})") from error
    return CloudStore(store, f"{scheme}://{bucket}/{prefix}".rstrip("/"))


def _credentials(scheme: str, config: StoreConfig) -> dict[str, str]:
    names = _CREDENTIALS[scheme]
    given: dict[str, str] = {}
    if config.access_key_id is not None:
        given["access_key_id"] = config.access_key_id
    if config.secret_access_key is not None:
        given["secret_access_key"] = config.secret_access_key.get_secret_value()
    if config.session_token is not None:
        given["session_token"] = config.session_token.get_secret_value()
    for setting in given.keys() - names.keys():
        raise ConfigError(f"store.{setting}: {scheme}:// has no such credential.")
    return {names[setting]: value for setting, value in given.items()}
