"""Tests the names of tables, and that tables are created completely or not at all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import CatalogConnection, ConfigError
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier, derived_identifier
from tests.lake.support import EPOCH, TOPIC, local_config, make_base_table, nessie_config
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer, S3Server


@pytest.fixture(params=["sqlite", "nessie"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """Returns settings for each kind of catalog in turn."""
    if request.param == "sqlite":
        return local_config(tmp_path)
    servers = [request.getfixturevalue(name) for name in ("nessie", "s3_server", "namespace")]
    return nessie_config(tmp_path, *servers)


@pytest.mark.parametrize(
    ("topic", "name", "expected"),
    [
        ("orders", None, ("frazil", "orders")),
        ("shop.orders-2", None, ("shop", "orders-2")),
        ("shop.eu.orders", None, ("frazil", "shop_eu_orders")),
        ("orders", "sales", ("frazil", "sales")),
        ("orders", "shop.eu.sales", ("shop", "eu", "sales")),
    ],
)
def test_names(tmp_path: Path, topic: str, name: str | None, expected: tuple[str, ...]) -> None:
    config = local_config(tmp_path, topics={topic: {"table": {"name": name}}})
    assert base_identifier(config, topic) == expected
    assert dead_letter_identifier(config, topic) == (*expected[:-1], f"{expected[-1]}__dead_letter")
    assert derived_identifier(config, topic, "daily") == (*expected[:-1], "daily")


def test_a_dot_means_nothing_in_the_name_of_a_topic_from_kafka(tmp_path: Path) -> None:
    config = local_config(tmp_path, kafka={"topics": ["shop.orders"], "bootstrap_servers": ["localhost:9092"]})
    assert base_identifier(config, "shop.orders") == ("frazil", "shop_orders")
    assert config.base_table("shop.orders") == "frazil.shop_orders"


def test_a_name_that_is_none(tmp_path: Path) -> None:
    config = local_config(tmp_path, topics={"orders": {"table": {"name": "shop..orders"}}})
    with pytest.raises(ConfigError, match=r"topics\.orders\.table\.name"):
        base_identifier(config, "orders")


def test_a_table_is_born_with_a_snapshot_and_its_offsets(config: Config) -> None:
    table = make_base_table(Lake(config), offsets={0: 5, 3: 70})
    properties = table.properties
    assert {name: value for name, value in properties.items() if name.startswith("frazil.")} == {
        "frazil.version": "1",
        "frazil.topic": TOPIC,
        "frazil.role": "base",
        "frazil.offset.0": "5",
        "frazil.offset.3": "70",
        "frazil.epoch.0": EPOCH,
        "frazil.epoch.3": EPOCH,
    }
    snapshot = table.current_snapshot()
    assert snapshot
    assert snapshot.summary
    assert json.loads(snapshot.summary.additional_properties["frazil.offsets"]) == {"0": 5, "3": 70}
    assert len(table.scan().to_arrow()) == 0
    assert table.format_version == 2


def test_who_comes_second_gets_the_first_one_s_table(config: Config) -> None:
    first = make_base_table(Lake(config))
    second = make_base_table(Lake(config), offsets={0: 99})
    assert second.metadata.table_uuid == first.metadata.table_uuid
    assert second.properties["frazil.offset.0"] == "0"


def test_of_many_creators_at_once_one_wins_and_all_have_its_table(config: Config) -> None:
    with ThreadPoolExecutor(6) as pool:
        tables = list(pool.map(lambda _: make_base_table(Lake(config)), range(6)))
    assert len({table.metadata.table_uuid for table in tables}) == 1
    assert all(len(table.metadata.snapshots) == 1 for table in tables)
    lake = Lake(config)
    assert lake.catalog.list_tables(tables[0].name()[:-1]) == [tables[0].name()]


def test_a_creator_whose_rename_got_no_answer_finds_its_table(
    tmp_path: Path, nessie: NessieServer, nessie_proxy: Proxy, s3_server: S3Server, namespace: str
) -> None:
    lake = Lake(nessie_config(tmp_path, nessie, s3_server, namespace, endpoint=nessie_proxy.endpoint))
    nessie_proxy.on("POST", "*/tables/rename").drop_reply(times=1)
    with pytest.raises(CatalogConnection):
        make_base_table(lake)
    table = make_base_table(lake)
    assert table.current_snapshot() is not None
    assert lake.catalog.list_tables((namespace,)) == [table.name()]
