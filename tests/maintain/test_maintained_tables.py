"""Tests which tables maintenance is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.lake.catalog.lake import Lake
from frazil.maintain.files import normalized_path
from frazil.maintain.maintained_tables import find_maintained_tables
from tests.lake.commit.commits import SCHEMA, make_lake, make_table


def test_all_tables_that_say_they_are_frazils(tmp_path: Path) -> None:
    config = Config.model_validate({"data_dir": tmp_path, "topics": {"clicks": {"table": {"name": "web.clicks"}}}})
    lake = Lake(config)
    make_table(lake)
    make_table(lake, name=("web", "clicks"))
    make_table(lake, name=("elsewhere", "hidden"))
    lake.catalog.create_table(("frazil", "somebody_elses"), SCHEMA)
    make_table(lake, name=("frazil", "events__new_1a2b"))
    names = [target.name for target in find_maintained_tables(lake, config)]
    assert names == ["frazil.events", "web.clicks"]
    assert [target.name for target in find_maintained_tables(lake, config, ["clicks"])] == ["web.clicks"]
    assert [target.name for target in find_maintained_tables(lake, config, ["frazil.events", "events"])] == [
        "frazil.events"
    ]
    with pytest.raises(ConfigError, match=r"There are: frazil\.events, web\.clicks"):
        find_maintained_tables(lake, config, ["orders"])


def test_a_table_that_cannot_be_loaded_does_not_hide_the_others(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    broken = make_table(lake)
    make_table(lake, name=("frazil", "orders"))
    Path(normalized_path(broken.metadata_location)).unlink()
    first, second = find_maintained_tables(lake, lake.config)
    assert first.name == "frazil.events"
    assert first.problem is not None
    assert second.name == "frazil.orders"
    assert second.problem is None
