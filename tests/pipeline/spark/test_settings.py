"""Tests which settings override others."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.pipeline.spark.settings import Master, session_settings


def _settings(spark: dict[str, str], catalog: dict[str, str], extra: dict[str, str]) -> dict[str, str]:
    config = Config.model_validate({"pipeline": {"spark": spark}})
    return session_settings(config, catalog, extra, name="n", folder=Path("/f"), jars=[Path("/j/a.jar")])


def test_later_ones_win() -> None:
    settings = _settings(
        {"spark.ui.enabled": "true", "spark.sql.catalog.x.uri": "user's", "spark.app.name": "user's"},
        {
            "spark.sql.catalog.x.uri": "lake's",
            "spark.sql.catalog.x": "lake's",
            "spark.sql.session.timeZone": "lake's",
        },
        {"spark.app.name": "caller's"},
    )
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.catalog.x.uri"] == "user's"
    assert settings["spark.sql.catalog.x"] == "lake's"
    assert settings["spark.sql.session.timeZone"] == "lake's"
    assert settings["spark.app.name"] == "caller's"


def test_ports_of_spark_ask_for_a_secret_and_its_files_are_private() -> None:
    settings = _settings({}, {}, {})
    assert settings["spark.authenticate"] == "true"
    assert "spark.authenticate.secret" not in settings, "Spark makes one"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.hadoop.fs.permissions.umask-mode"] == "077"


def test_lists_are_joined() -> None:
    settings = _settings(
        {
            "spark.sql.extensions": "org.example.Mine",
            "spark.driver.extraClassPath": "/mine.jar",
            "spark.driver.extraJavaOptions": "-Dmine=1",
            "spark.jars": "/other.jar",
        },
        {"spark.sql.extensions": "org.example.Iceberg"},
        {},
    )
    assert settings["spark.sql.extensions"] == "org.example.Iceberg,org.example.Mine"
    assert settings["spark.driver.extraClassPath"] == "/j/a.jar:/mine.jar"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert settings["spark.jars"] == "/other.jar"


def test_who_chooses_a_collector_for_java_is_not_contradicted() -> None:
    options = "spark.driver.extraJavaOptions"
    assert "-XX:+UseSerialGC" in _settings({options: "-Xss2m"}, {}, {})[options]
    assert "-XX:+UseSerialGC" not in _settings({options: "-Xss2m -XX:+UseG1GC"}, {}, {})[options]
    assert "-XX:+UseSerialGC" not in _settings({}, {}, {options: "-XX:+UseZGC"})[options]
    assert "-XX:+UseSerialGC" not in _settings({"spark.master": "yarn"}, {}, {})[options]


def test_jars_are_sent_to_other_machines_only() -> None:
    near = _settings({"spark.master": "local-cluster[2,1,1024]"}, {}, {})
    far = _settings({"spark.master": "spark://there:7077", "spark.jars": "/other.jar"}, {}, {})
    assert "spark.jars" not in near
    assert near["spark.executor.extraClassPath"] == "/j/a.jar"
    assert far["spark.jars"] == "/j/a.jar,/other.jar"
    assert "spark.driver.extraClassPath" not in far
    assert "spark.driver.host" not in far


@pytest.mark.parametrize(
    ("url", "cores", "here"),
    [
        ("local", 1, True),
        ("local[3]", 3, True),
        ("local[3,5]", 3, True),
        ("local-cluster[2,3,1024]", 6, True),
        ("local-cluster[ 2 , 1 , 1024 ]", 2, True),
        ("spark://there:7077", None, False),
        ("yarn", None, False),
        ("k8s://there", None, False),
    ],
)
def test_what_a_master_means(url: str, cores: int | None, here: bool) -> None:
    master = Master(url)
    assert (master.cores, master.on_this_machine) == (cores, here)
