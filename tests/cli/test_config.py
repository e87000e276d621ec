from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from frazil.config.model import Config
from tests.cli.support import frazil


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("log:\n  sinc: always\n  sync: soon\n")
    result = frazil(tmp_path, "config", "check")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "frazil: 2 problems in the configuration:",
        "  log.sync: 'soon' is not allowed; allowed: always, periodic, none (frazil.yaml, line 3)",
        "  log.sinc: unknown key; did you mean log.sync? (frazil.yaml, line 2)",
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            "topics: {a: {table: {partition_by: [dai(time)]}}}",
            "topics.a.table.partition_by: 'dai(time)', at position 1: 'dai' is no function",
        ),
        (
            "topics: {a: {derived: {b: {sql: SELECT 1, sort_by: [x up]}}}}",
            "topics.a.derived.b.sort_by: 'x up', at position 3: 'up' is not expected",
        ),
        (
            "topics: {a: {table: {properties: {frazil.topic: b}}}}",
            "topics.a.table.properties.frazil.topic: Frazil keeps",
        ),
        (
            "lake: {properties: {type: rest, uri: 'ftp://me:hunter2@host/'}}",
            "lake.properties.uri: the address of a catalog of type rest begins with http: or https:, not "
            "'ftp://me:********@host/'",
        ),
        ("lake: {properties: {type: sql, uri: 'mysql://host/db'}}", "begins with sqlite: or postgresql:"),
    ],
)
def test_check_looks_at_tables_before_there_are_any(tmp_path: Path, settings: str, problem: str) -> None:
    (tmp_path / "frazil.yaml").write_text(settings)
    result = frazil(tmp_path, "config", "check")
    assert result.returncode == 1
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            "topics: [orders], settings: {enable.auto.commit: true}",
            "kafka.settings.enable.auto.commit: must be false",
        ),
        ("topics: [orders], settings: {no.such.thing: 1}", "kafka.settings.no.such.thing: "),
        ("topics: ['sensor*']", "kafka.topics: 'sensor*' cannot be a topic"),
        ("topics: ['^[sensor']", "kafka.topics: '^[sensor' is no regular expression"),
        ("topics: ['^a{']", "kafka.topics: '^a{' is no regular expression"),
        ("topics: [orders], registry: {url: 'localhost:8081'}", "kafka.registry.url: must be http://HOST:PORT"),
    ],
)
def test_check_refuses_what_the_kafka_door_would(tmp_path: Path, settings: str, problem: str) -> None:
    (tmp_path / "frazil.yaml").write_text(f"kafka: {{bootstrap_servers: ['127.0.0.1:9'], {settings}}}")
    result = frazil(tmp_path, "config", "check")
    assert (result.returncode, result.stdout) == (1, "")
    assert problem in result.stderr


def test_check_refuses_what_the_doors_for_telemetry_would(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("loki: {port: 8080}")
    result = frazil(tmp_path, "config", "check", FRAZIL__LOKI__ENABLED="true")
    assert (result.returncode, result.stdout) == (1, "")
    assert "loki.port: 8080 is that of server already" in result.stderr


def test_check_needs_no_brokers(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text(
        "kafka: {bootstrap_servers: ['127.0.0.1:9'], topics: [orders, '^sensors[.].*']}"
    )
    result = frazil(tmp_path, "config", "check")
    assert (result.returncode, result.stdout, result.stderr) == (0, "frazil.yaml is right\n", "")


def test_check_is_content_with_a_right_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("node: a\n")
    result = frazil(tmp_path, "config", "check", "--config", "mine.yaml")
    assert (result.returncode, result.stdout) == (0, "mine.yaml is right\n")
    assert frazil(tmp_path, "config", "check").returncode == 0


def test_show_prints_what_is_in_force_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("store: {secret_access_key: hunter2}\n")
    as_yaml = frazil(tmp_path, "--config", "mine.yaml", "config", "show", FRAZIL__LOG__SYNC="always")
    as_json = frazil(
        tmp_path, "config", "show", "--output", "json", "--config", "mine.yaml", FRAZIL__LOG__SYNC="always"
    )
    assert as_yaml.returncode == as_json.returncode == 0
    assert "hunter2" not in as_yaml.stdout + as_json.stdout
    assert "sync: always  # FRAZIL__LOG__SYNC" in as_yaml.stdout
    shown = json.loads(as_json.stdout)
    assert yaml.safe_load(as_yaml.stdout) == shown
    assert shown["store"].pop("secret_access_key") == "********"
    assert Config.model_validate(shown).log.sync == "always"
