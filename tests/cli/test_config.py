from __future__ import annotations

import json
from pathlib import Path

import yaml

from frazil.config.model import Config
from tests.cli.support import frazil


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("log:\n  sinc: always\n  sync: soon\n")
    told = frazil(tmp_path, "config", "check")
    assert told.returncode == 1
    assert told.stderr.splitlines() == [
        "frazil: 2 problems in the configuration:",
        "  log.sync: 'soon' is not allowed; allowed: always, periodic, none (frazil.yaml, line 3)",
        "  log.sinc: unknown key; did you mean log.sync? (frazil.yaml, line 2)",
    ]


def test_check_is_content_with_a_right_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("node: a\n")
    told = frazil(tmp_path, "config", "check", "--config", "mine.yaml")
    assert (told.returncode, told.stdout) == (0, "mine.yaml is right\n")
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
