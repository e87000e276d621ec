"""Which catalog is used, and with what settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.lake.catalog.lake import Lake
from frazil.lake.catalog.properties import resolve_properties
from tests.lake.support import local_config


@pytest.fixture(autouse=True)
def nothing_of_the_person_who_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def s3_config(folder: Path, **store: object) -> Config:
    return local_config(
        folder,
        store={
            "url": "s3://bucket/some/prefix",
            "options": {"endpoint": "http://localhost:9000"},
            "access_key_id": "key",
            "secret_access_key": "hush",
            **store,
        },
    )


def test_without_settings_the_catalog_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    name, properties = resolve_properties(local_config(tmp_path))
    assert name == "frazil"
    assert properties["type"] == "sql"
    assert properties["uri"] == f"sqlite:///{tmp_path}/data/catalog.db?timeout=30.0"
    assert properties["warehouse"] == f"file://{tmp_path}/data/store/warehouse"
    assert properties["py-io-impl"] == "frazil.lake.catalog.durable_io.DurableFileIO"
    assert (tmp_path / "data").is_dir()


@pytest.mark.parametrize("url", ["{}/elsewhere", "file://{}/elsewhere"])
def test_the_warehouse_is_in_the_folder_of_the_store(tmp_path: Path, url: str) -> None:
    _, properties = resolve_properties(local_config(tmp_path, store={"url": url.format(tmp_path)}))
    assert properties["warehouse"] == f"file://{tmp_path}/elsewhere/warehouse"


def test_a_store_on_s3_gives_the_warehouse_and_how_to_reach_it(tmp_path: Path) -> None:
    _, properties = resolve_properties(s3_config(tmp_path, session_token="token"))
    assert properties["warehouse"] == "s3://bucket/some/prefix/warehouse"
    assert properties["s3.endpoint"] == "http://localhost:9000"
    assert properties["s3.region"] == "us-east-1"
    assert properties["s3.access-key-id"] == "key"
    assert properties["s3.secret-access-key"] == "hush"
    assert properties["s3.session-token"] == "token"
    assert properties["s3.force-virtual-addressing"] == "false"
    assert "py-io-impl" not in properties


def test_what_is_said_of_the_warehouse_is_not_mixed_with_the_store(tmp_path: Path) -> None:
    given = {"warehouse": "s3://other/place", "s3.endpoint": "http://other:9000"}
    config = s3_config(tmp_path).model_copy(update={"lake": local_config(tmp_path, lake={"properties": given}).lake})
    _, properties = resolve_properties(config)
    assert properties["warehouse"] == "s3://other/place"
    assert properties["s3.endpoint"] == "http://other:9000"
    assert "s3.secret-access-key" not in properties


def test_azure_and_google_are_named_as_iceberg_names_them(tmp_path: Path) -> None:
    azure = {"url": "az://container/prefix", "access_key_id": "account", "secret_access_key": "hush"}
    _, properties = resolve_properties(local_config(tmp_path, store=azure))
    assert properties["warehouse"] == "abfss://container@account.dfs.core.windows.net/prefix/warehouse"
    assert properties["adls.account-key"] == "hush"
    google = {"url": "gs://bucket", "session_token": "token"}
    _, properties = resolve_properties(local_config(tmp_path, store=google))
    assert properties["warehouse"] == "gs://bucket/warehouse"
    assert properties["gcs.oauth2.token"] == "token"


def test_pyiceberg_s_file_is_used_unchanged_and_our_settings_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / ".pyiceberg.yaml").write_text(
        "default-catalog: prod\n"
        "catalog:\n"
        "  prod:\n    uri: http://catalog:8181\n    warehouse: main\n    token: hush\n"
        "  other:\n    uri: postgresql://me:hush@db/iceberg\n    warehouse: s3://bucket/there\n"
    )
    name, properties = resolve_properties(local_config(tmp_path))
    assert (name, properties["type"], properties["uri"]) == ("prod", "rest", "http://catalog:8181")
    assert properties["token"] == "hush"
    lake = {"catalog": "other", "properties": {"warehouse": "s3://bucket/here"}}
    name, properties = resolve_properties(local_config(tmp_path, lake=lake))
    assert (name, properties["type"], properties["warehouse"]) == ("other", "sql", "s3://bucket/here")
    assert properties["uri"].startswith("postgresql://me:hush@db/iceberg?")
    assert "statement_timeout" in properties["uri"]
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__S3__ENDPOINT", "http://minio:9000")
    _, properties = resolve_properties(local_config(tmp_path))
    assert properties["s3.endpoint"] == "http://minio:9000"


def test_pyiceberg_s_environment_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", "thrift://hive:9083")
    name, properties = resolve_properties(local_config(tmp_path))
    assert (name, properties["type"], properties["uri"]) == ("default", "hive", "thrift://hive:9083")


@pytest.mark.parametrize(
    ("lake", "message"),
    [
        ({"catalog": "nowhere"}, "have no catalog 'nowhere'"),
        ({"properties": {"uri": "gopher://x"}}, "give its type"),
        ({"properties": {"type": "stone"}}, "'stone' is not known"),
        ({"properties": {"type": "sql"}}, "lake.properties.uri"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, lake: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_properties(local_config(tmp_path, lake=lake))


def test_a_broken_file_of_pyiceberg_is_an_error_of_configuration(tmp_path: Path) -> None:
    (tmp_path / "home" / ".pyiceberg.yaml").write_text("catalog: [1, {\n")
    with pytest.raises(ConfigError, match="PyIceberg's settings cannot be read"):
        resolve_properties(local_config(tmp_path))


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    properties = {"uri": "postgresql://me:hush@db/iceberg", "warehouse": "s3://b/w", "s3.secret-access-key": "hush"}
    assert "hush" not in repr(Lake(local_config(tmp_path, lake={"properties": properties})))
