"""The catalog as Spark is told of it. That Spark then reads the same tables is tested with the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.lake.catalog.spark import required_packages, spark_catalog_name, spark_settings
from tests.lake.support import local_config

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"


def with_properties(folder: Path, catalog: str | None = None, **properties: str) -> Config:
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}
    return local_config(folder, lake={"catalog": catalog, "properties": given})


def options(config: Config) -> dict[str, str]:
    """The catalog's own settings, without what they all begin with."""
    prefix = f"spark.sql.catalog.{spark_catalog_name(config)}."
    return {name.removeprefix(prefix): value for name, value in spark_settings(config).items() if prefix in name}


def test_the_embedded_catalog_is_the_same_database_under_the_same_name(tmp_path: Path) -> None:
    config = local_config(tmp_path)
    settings = spark_settings(config)
    assert settings["spark.sql.catalog.frazil"] == "org.apache.iceberg.spark.SparkCatalog"
    assert "IcebergSparkSessionExtensions" in settings["spark.sql.extensions"]
    assert options(config) == {
        "cache-enabled": "false",
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "jdbc.schema-version": "V1",
        "jdbc.busy_timeout": "30000",
        "uri": f"jdbc:sqlite:{tmp_path}/data/catalog.db",
        "warehouse": f"file://{tmp_path}/data/store/warehouse",
    }
    assert required_packages(config) == [RUNTIME, "org.xerial:sqlite-jdbc:3.50.3.0"]


def test_postgres_has_its_user_and_password_apart(tmp_path: Path) -> None:
    config = with_properties(
        tmp_path, "prod", uri="postgresql+psycopg2://me:h%40sh@db:5433/iceberg", warehouse="file:///w"
    )
    assert spark_catalog_name(config) == "prod"
    found = options(config)
    assert found["uri"] == "jdbc:postgresql://db:5433/iceberg"
    assert (found["jdbc.user"], found["jdbc.password"]) == ("me", "h@sh")
    assert required_packages(config) == [RUNTIME, "org.postgresql:postgresql:42.7.7"]


def test_a_rest_catalog_on_s3(tmp_path: Path) -> None:
    config = with_properties(
        tmp_path,
        uri="http://catalog:8181",
        token="hush",
        s3__endpoint="http://minio:9000",
        s3__region="eu-west-1",
        s3__access_key_id="key",
        s3__secret_access_key="secret",
    )
    assert options(config) == {
        "cache-enabled": "false",
        "type": "rest",
        "uri": "http://catalog:8181",
        "token": "hush",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "eu-west-1",
        "s3.endpoint": "http://minio:9000",
        "s3.path-style-access": "true",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
    }
    assert required_packages(config) == [RUNTIME, AWS]


def test_hive_glue_and_the_other_clouds(tmp_path: Path) -> None:
    hive = with_properties(tmp_path, uri="thrift://hive:9083", warehouse="gs://bucket/w")
    assert options(hive)["type"] == "hive"
    assert options(hive)["io-impl"] == "org.apache.iceberg.gcp.gcs.GCSFileIO"
    assert required_packages(hive) == [RUNTIME, "org.apache.iceberg:iceberg-gcp-bundle:1.12.0"]
    glue = with_properties(tmp_path, type="glue", warehouse="s3://bucket/w")
    assert options(glue)["catalog-impl"] == "org.apache.iceberg.aws.glue.GlueCatalog"
    assert required_packages(glue) == [RUNTIME, AWS]
    azure = with_properties(tmp_path, uri="http://c", warehouse="abfss://c@a.dfs.core.windows.net/w")
    assert required_packages(azure) == [RUNTIME, "org.apache.iceberg:iceberg-azure-bundle:1.12.0"]


def test_what_spark_cannot_have_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Spark has no dynamodb catalog"):
        spark_settings(with_properties(tmp_path, type="dynamodb"))
    with pytest.raises(ConfigError, match=r"'my\.cat' cannot be the name"):
        spark_settings(with_properties(tmp_path, "my.cat", uri="sqlite:///x.db"))
