"""Tests that the log keeps what any of its tables still needs."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from frazil.clock import World
from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.errors import ConfigError
from frazil.lake.catalog.lake import Identifier, Lake
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.table_history import add_table
from frazil.lake.tables.tables import create_table, derived_identifier
from frazil.log import layout
from frazil.log.log import Log
from frazil.log.topics.schemas import list_partitions
from frazil.maintain.maintained_tables import MaintainedTable, find_maintained_tables
from frazil.maintain.operations import run_operation
from frazil.maintain.report import OperationReport
from frazil.maintain.trimming.base_tables import release
from frazil.maintain.trimming.trimming import Trimming
from frazil.scan.log_extents import LogExtents
from frazil.store import open_store
from tests.lake.support import TOPIC, TOPIC_SCHEMA, make_base_table
from tests.log.support import ManualClock, rows
from tests.maintain.support import maintenance_context

BASE = MaintainedTable(("frazil", TOPIC), TOPIC, "base")


class Place:
    """A log of five segments of ten records each, and a lake for its table."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = Config.model_validate({"data_dir": folder, **settings})
        self.clock = ManualClock()
        world = World(self.clock, random.Random(1))
        with Log(self.config, world=world) as log:
            writer = log.writer(TOPIC, TOPIC_SCHEMA)
            for number in range(5):
                writer.append(rows(number * 10, 10))
                writer.seal()
            self.partition = writer.partition
        self.store = open_store(self.config.store, self.config.data_dir)
        self.lake = Lake(self.config)
        self.epoch = LogExtents(self.store, TOPIC, folder).current(tail=False)[self.partition].epoch
        self.trimming = Trimming()

    def make_table(self, offset: int, epoch: str | None = None, name: Identifier = BASE.identifier) -> None:
        table = create_table(
            self.lake,
            name,
            base_table_schema(TOPIC_SCHEMA),
            topic=TOPIC,
            role="base",
            layout=TableLayoutConfig(),
            offsets={self.partition: offset},
            epochs={self.partition: epoch or self.epoch},
        )
        add_table(self.store, TOPIC, name, table, "base")

    def trim(self, dry_run: bool = False) -> OperationReport:
        return run_operation(maintenance_context(self.lake, clock=self.clock), self.trimming, BASE, dry_run)

    def firsts(self) -> list[int]:
        keys = (info.key for info in self.store.list(layout.partition_prefix(TOPIC, self.partition)))
        return [first for key in keys if (first := layout.parse_segment(key)) is not None]


def test_what_the_table_has_goes_after_the_grace_time(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(25)
    report = place.trim()
    assert report.outcome == "nothing"
    assert "2 segments wait" in report.work.note
    assert place.firsts() == [0, 10, 20, 30, 40]
    place.clock.advance(3601)
    planned = place.trim(dry_run=True)
    assert (planned.outcome, len(planned.work.items)) == ("would", 2)
    report = place.trim()
    assert (report.outcome, report.work.before.files, report.work.after.files) == ("done", 5, 3)
    assert report.work.removed.bytes
    assert place.firsts() == [20, 30, 40]
    assert place.trim().outcome == "nothing"


def test_nothing_to_do_is_found_without_asking_the_log(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(0)
    assert place.trim().work.before.files == 5
    assert place.trim().work.before.files is None


def test_a_derived_table_that_lags_does_not_keep_the_log(tmp_path: Path) -> None:
    place = Place(tmp_path, topics={TOPIC: {"derived": {"loud": {"sql": "SELECT id FROM batch"}}}})
    place.make_table(50)
    create_table(
        place.lake,
        derived_identifier(place.config, TOPIC, "loud"),
        base_table_schema(TOPIC_SCHEMA),
        topic=TOPIC,
        role="derived",
        layout=TableLayoutConfig(),
        offsets={place.partition: 12},
        epochs={},
    )
    place.trim()
    place.clock.advance(3601)
    place.trim()
    assert place.firsts() == [40], "it reads the rest from the base table"


def test_a_table_that_cannot_be_trusted_keeps_the_log(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(30, epoch="of another log")
    report = place.trim()
    assert report.outcome == "skipped"
    assert "of another log" in report.work.note
    assert place.firsts() == [0, 10, 20, 30, 40]


def test_a_table_ahead_of_the_log_keeps_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(70)
    report = place.trim()
    assert report.outcome == "skipped"
    assert "70" in report.work.note
    assert "50" in report.work.note


def test_offsets_changed_by_hand_keep_the_log(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(20)
    table = place.lake.load(BASE.identifier)
    table.transaction().set_properties({f"frazil.offset.{place.partition}": "40"}).commit_transaction()
    report = place.trim()
    assert report.outcome == "skipped"
    assert "rolled back" in report.work.note


def test_a_topic_without_a_table_is_never_trimmed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert find_maintained_tables(place.lake, place.config) == []
    assert place.trim().outcome == "skipped"
    assert place.firsts() == [0, 10, 20, 30, 40]


def test_partitions_that_the_table_has_not_heard_of_are_kept(tmp_path: Path) -> None:
    place = Place(tmp_path)
    make_base_table(place.lake, offsets={place.partition + 7: 0})
    place.clock.advance(3601)
    place.trim()
    assert list_partitions(place.store, TOPIC) == [place.partition]
    assert place.firsts() == [0, 10, 20, 30, 40]


def sealed_hourly(place: Place) -> dict[int, int]:
    """Makes the segments look as if one had been sealed each hour, the last one now.

    Returns their sizes by first offset.
    """
    sizes = {}
    for info in place.store.list(layout.partition_prefix(TOPIC, place.partition)):
        if (first := layout.parse_segment(info.key)) is not None:
            path = Path(place.store.url.removeprefix("file://")) / info.key
            moment = place.clock.ms / 1000 - (40 - first) * 360
            os.utime(path, (moment, moment))
            sizes[first] = info.size
    return sizes


def trim_at_last(place: Place) -> list[int]:
    """Trims until the grace time is over, and returns what is left."""
    place.trim()
    place.clock.advance(3601)
    place.trim()
    return place.firsts()


def test_segments_that_the_table_has_stay_for_as_long_as_the_topic_wants(tmp_path: Path) -> None:
    place = Place(tmp_path, topics={TOPIC: {"log_retention_hours": 2.5}})
    place.make_table(50)
    sealed_hourly(place)
    assert trim_at_last(place) == [20, 30, 40]
    assert trim_at_last(place) == [30, 40], "time goes by, and the table's offsets do not move"
    assert trim_at_last(place) == [40]


def test_segments_that_the_table_has_stay_up_to_a_size(tmp_path: Path) -> None:
    place = Place(tmp_path)
    sizes = sealed_hourly(place)
    room = (sizes[20] + sizes[30] + sizes[40]) / 1024**3
    place.lake = Lake(Config.model_validate({"data_dir": tmp_path, "topics": {TOPIC: {"log_retention_gb": room}}}))
    place.make_table(50)
    assert trim_at_last(place) == [20, 30, 40]
    both = {"log_retention_gb": room, "log_retention_hours": 2.5}
    place.lake = Lake(Config.model_validate({"data_dir": tmp_path, "topics": {TOPIC: both}}))
    assert trim_at_last(place) == [30, 40], "what is past one of two limits goes"


def test_what_the_table_does_not_have_stays_whatever_the_limits(tmp_path: Path) -> None:
    place = Place(tmp_path, topics={TOPIC: {"log_retention_hours": 0.001, "log_retention_gb": 1e-9}})
    sealed_hourly(place)
    place.make_table(15)
    assert trim_at_last(place) == [10, 20, 30, 40]


OTHER = ("frazil", "orders_of_others")


def test_the_log_is_kept_for_every_base_table_that_it_feeds(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(50)
    place.make_table(15, name=OTHER)
    place.trim()
    place.clock.advance(3601)
    assert place.trim().outcome == "done"
    assert place.firsts() == [10, 20, 30, 40]
    assert place.trim().outcome == "nothing"
    properties = {f"frazil.offset.{place.partition}": "40"}
    table = place.lake.load(OTHER)
    table.transaction().set_properties(properties).commit_transaction()
    assert place.trim().outcome == "skipped", "it does not agree with itself"
    assert place.firsts() == [10, 20, 30, 40]


def test_the_log_is_kept_for_a_table_of_another_catalog_until_somebody_lets_go_of_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make_table(50)
    place.make_table(15, name=OTHER)
    context = maintenance_context(place.lake, clock=place.clock)
    with pytest.raises(ConfigError, match="is there"):
        release(context, TOPIC, "frazil.orders_of_others")
    place.lake.catalog.drop_table(OTHER)
    place.clock.advance(3601)
    report = place.trim()
    assert report.outcome == "skipped"
    assert "`frazil maintain trim orders --release frazil.orders_of_others`" in report.work.note
    assert place.firsts() == [0, 10, 20, 30, 40]
    with pytest.raises(ConfigError, match=r"It is for: frazil\.orders, frazil\.orders_of_others"):
        release(context, TOPIC, "frazil.nobodys")
    release(context, TOPIC, "frazil.orders_of_others")
    place.trim()
    place.clock.advance(3601)
    assert place.trim().outcome == "done"
    assert place.firsts() == [40]
    # A table that is created under that name afterwards counts again.
    place.make_table(45, name=OTHER)
    place.lake.catalog.drop_table(OTHER)
    place.trimming = Trimming()
    assert place.trim().outcome == "skipped"
