from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.config.load import load_config
from frazil.config.setting_tree import variable
from frazil.config.show import as_data, as_yaml
from tests.config.samples import SETTINGS, companions, named, valid_text


@settings(deadline=None)
@given(data=st.data())
def test_what_is_shown_can_be_loaded_again(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    environ: dict[str, str] = {}
    for path, setting in data.draw(st.lists(st.sampled_from(SETTINGS), max_size=8)):
        if not setting.secret:
            key = named(path, data.draw(st.sampled_from(["orders", "endpoint"])))
            environ |= {variable(companion): text for companion, text in companions(key).items()}
            environ[variable(key)] = data.draw(valid_text(setting))
    if any("COMPRESSION_LEVEL" in name for name in environ):
        environ = {name: text for name, text in environ.items() if not name.endswith("COMPRESSION")}
    loaded = load_config(environ=environ)
    page = tmp_path_factory.getbasetemp() / "shown.yaml"
    page.write_text(as_yaml(loaded), "utf-8")
    assert load_config(page, {}).config == loaded.config


def test_secrets_are_hidden_and_origins_are_told(tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    path.write_text("store:\n  secret_access_key: hunter2\n  options: {sas_token: hunter2, region: eu}\n")
    loaded = load_config(path, {"FRAZIL__LOG__SYNC": "always"})
    shown = as_yaml(loaded)
    assert "hunter2" not in shown
    assert f"  secret_access_key: '********'  # {path}, line 2" in shown
    assert f"    region: eu  # {path}, line 3" in shown
    assert "  sync: always  # FRAZIL__LOG__SYNC" in shown
    assert as_data(loaded)["store"]["session_token"] is None
    assert yaml.safe_load(shown) == as_data(loaded)


SHOWN = """\
  properties:
    type: rest
    uri: postgresql+psycopg2://me:********@db:5432/lake?sslmode=require
    s3.access-key-id: AKIA
    s3.secret-access-key: '********'
    token: '********'
    header.Authorization: '********'
    adls.connection-string: '********'
"""


def test_secrets_of_catalog_and_spark_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(
        """
lake:
  properties:
    type: rest
    uri: postgresql+psycopg2://me:hun:ter2@db:5432/lake?sslmode=require
    s3.access-key-id: AKIA
    s3.secret-access-key: hunter2
    token: hunter2
    header.Authorization: Bearer hunter2
    adls.connection-string: AccountName=a;AccountKey=hunter2
pipeline:
  spark:
    spark.hadoop.fs.s3a.secret.key: hunter2
    spark.ssl.keyPassword: hunter2
    spark.driver.memory: 4g
    spark.driver.extraJavaOptions: -Djavax.net.ssl.trustStorePassword=hunter2 -Xmx1g
store: {url: "s3://bucket/a"}
""",
        "utf-8",
    )
    loaded = load_config(path, {})
    shown = as_yaml(loaded)
    assert "hunter2" not in shown
    assert "hun:ter2" not in shown
    assert "hunter2" not in repr(loaded.config)
    plain = "\n".join(line.partition("  # ")[0] for line in shown.splitlines())
    assert SHOWN in plain
    assert "    spark.driver.memory: 4g\n" in plain
    assert "-Djavax.net.ssl.trustStorePassword=******** -Xmx1g" in plain
    assert "  url: s3://bucket/a\n" in plain
    assert loaded.config.lake.properties["token"] == "hunter2"


def test_lists_are_shown_as_yaml(tmp_path: Path) -> None:
    loaded = load_config(environ={"FRAZIL__TOPICS__A__TABLE__PARTITION_BY": "day(time), bucket(16, id)"})
    line = "      partition_by: [day(time), 'bucket(16, id)']  # FRAZIL__TOPICS__A__TABLE__PARTITION_BY"
    assert line in as_yaml(loaded).splitlines()
