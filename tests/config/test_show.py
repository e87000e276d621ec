from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.keys import variable
from frazil.config.load import load_config
from frazil.config.show import as_data, as_yaml
from tests.config.samples import LEAVES, named, valid_text


@given(data=st.data())
def test_what_is_shown_can_be_loaded_again(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    environ = {}
    for path, leaf in data.draw(st.lists(st.sampled_from(LEAVES), max_size=8)):
        if not leaf.secret:
            environ[variable(named(path, data.draw(st.sampled_from(["orders", "endpoint"]))))] = data.draw(
                valid_text(leaf)
            )
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
