"""Tests that tables of a lost catalog are registered again from the warehouse, with every row once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from uuid import uuid4

import pytest

import frazil
from frazil.config.model import Config
from frazil.errors import CatalogLost, IcebergError, SegmentsGone, TableExists
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.registration import check_not_lost, plan_registrations, register
from frazil.log.segments.trim import trim
from frazil.store import open_store
from tests.cli.support import frazil as command
from tests.query.support import World, rows
from tests.servers.shared import S3Server

TOPIC = "orders"


def grown(world: World, batches: int, start: int = 0) -> None:
    """Moves batches of ten rows to the table, one after the other."""
    for number in range(start, start + batches):
        world.append(TOPIC, rows(10 * number, 10))
        world.seal(TOPIC)
        world.move(TOPIC)


def lose(config: Config) -> None:
    for path in config.data_dir.glob("catalog.db*"):
        path.unlink()


def metadata_of(config: Config) -> list[Path]:
    return sorted((config.data_dir / "store" / "warehouse").glob("*/orders/metadata/*.metadata.json"))


def ids(config: Config) -> list[int]:
    return sorted(frazil.read(TOPIC, config=config).reader().read_all()["id"].to_pylist())


def registered(config: Config, *chosen: str) -> None:
    lake = Lake(config)
    for each in plan_registrations(lake, open_store(config.store, config.data_dir), chosen):
        register(lake, each)
    lake.close()


def test_a_lost_catalog_is_told_as_such_and_made_again_by_the_command(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        grown(world, 3)
        lose(world.config)
        with pytest.raises(CatalogLost, match="frazil maintain register"):
            ids(world.config)
        with pytest.raises(CatalogLost, match="is empty and does not know tables"):
            check_not_lost(Lake(world.config), world.log.store)

        shown = command(tmp_path, "maintain", "register", "--dry-run", "--output", "json")
        assert shown.returncode == 0, shown.stderr
        (table,) = json.loads(shown.stdout)
        assert table["metadata"].endswith(metadata_of(world.config)[-1].name)
        assert (table["offsets"], table["outcome"]) == ({"0": 30}, "would be registered")
        with pytest.raises(CatalogLost):
            ids(world.config)

        done = command(tmp_path, "maintain", "register")
        assert done.returncode == 0, done.stderr
        check_not_lost(Lake(world.config), world.log.store)
        assert ids(world.config) == list(range(30))
        grown(world, 1, start=3)
        assert ids(world.config) == list(range(40))
        again = command(tmp_path, "maintain", "register")
        assert "nothing to register" in again.stdout


def test_a_first_start_is_no_loss(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.append(TOPIC, rows(0, 10))
        check_not_lost(Lake(world.config), world.log.store)


def test_of_two_that_may_be_the_last_a_person_chooses_and_rows_are_moved_again(tmp_path: Path) -> None:
    """One of the files lost the race for its version. Here it is taken for the one that won."""
    with World(tmp_path) as world:
        grown(world, 3)
        *_, before, last = metadata_of(world.config)
        version = last.name.partition("-")[0]
        other = last.with_name(f"{version}-{uuid4()}.metadata.json")
        shutil.copy(before, other)
        lose(world.config)
        with pytest.raises(IcebergError, match=r"2 metadata files of which each may be the last.*\n.*\n") as told:
            registered(world.config)
        assert last.name in str(told.value)
        assert "partition 0 up to 20" in str(told.value)
        registered(world.config, f"file://{other}")
        assert ids(world.config) == list(range(30)), "the rest is still in the log"
        world.move(TOPIC)
        assert ids(world.config) == list(range(30))


def test_one_whose_files_are_gone_came_to_nothing(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        grown(world, 2)
        known = set(metadata_of(world.config))
        data = set(tmp_path.rglob("*/data/**/*.parquet"))
        grown(world, 1, start=2)
        for path in set(tmp_path.rglob("*/data/**/*.parquet")) - data:
            path.unlink()
        lose(world.config)
        lake = Lake(world.config)
        (found,) = plan_registrations(lake, world.log.store)
        assert found.file.offsets == {0: 20}
        assert Path(found.file.location.removeprefix("file://")) in known
        register(lake, found)
        world.move(TOPIC)
        assert ids(world.config) == list(range(30))


def test_a_gap_between_table_and_log_stops_the_topic(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        grown(world, 3)
        older = metadata_of(world.config)[-3]
        trim(world.log.store, TOPIC, 0, needed_from=30, grace_seconds=0, now_ms=2**42)
        lose(world.config)
        registered(world.config, f"file://{older}")
        with pytest.raises(SegmentsGone):
            world.move(TOPIC)


def test_a_table_of_the_name_is_left_alone(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        grown(world, 1)
        lose(world.config)
        lake = Lake(world.config)
        (found,) = plan_registrations(lake, world.log.store)
        register(lake, found)
        with pytest.raises(TableExists, match="left as it is"):
            register(lake, found)


def test_tables_in_an_object_store(tmp_path: Path, s3_server: S3Server, s3_prefix: str) -> None:
    with World(tmp_path, store=s3_server.config(s3_prefix)) as world:
        grown(world, 2)
        lose(world.config)
        registered(world.config)
        grown(world, 1, start=2)
        assert ids(world.config) == list(range(30))
