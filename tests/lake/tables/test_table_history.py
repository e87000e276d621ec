"""Tests the history of a topic's tables that is stored beside the log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.errors import LogCorrupted
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.table_history import add_retirement, add_table, newest_entry, table_history
from frazil.store import ObjectStore
from tests.lake.support import TOPIC, local_config, make_base_table


def test_many_who_mark_at_once_leave_one_marker_for_each_table(any_store: ObjectStore, tmp_path: Path) -> None:
    lake = Lake(local_config(tmp_path))
    tables = [make_base_table(lake, topic) for topic in ("a", "b")]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: add_table(any_store, TOPIC, tables[i % 2].name(), tables[i % 2], "base"), range(8)))
    found = table_history(any_store, TOPIC)
    assert sorted(marker.identifier for marker in found) == [("frazil", "a"), ("frazil", "b")]
    assert [marker.number for marker in found] == [1, 2]


def test_the_newest_of_a_table_counts(local_store: ObjectStore, tmp_path: Path) -> None:
    lake = Lake(local_config(tmp_path))
    name = ("frazil", "a")
    assert newest_entry(local_store, TOPIC, name) is None
    for topic in ("a", "b", "a"):
        table = make_base_table(lake, topic)
        add_table(local_store, TOPIC, name, table, "base")
        newest = newest_entry(local_store, TOPIC, name)
        assert newest
        assert newest.uuid == table.metadata.table_uuid
    assert len(table_history(local_store, TOPIC, name)) == 3


def test_a_table_that_is_done_with(local_store: ObjectStore, tmp_path: Path) -> None:
    first, second = (make_base_table(Lake(local_config(tmp_path)), topic) for topic in ("a", "b"))
    name = ("frazil", "a")
    add_table(local_store, TOPIC, name, first, "base")
    known = newest_entry(local_store, TOPIC, name)
    assert known
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: add_retirement(local_store, TOPIC, known), range(4)))
    assert [marker.uuid for marker in table_history(local_store, TOPIC)] == [first.metadata.table_uuid, None]
    add_table(local_store, TOPIC, name, second, "base")
    add_retirement(local_store, TOPIC, known)
    newest = newest_entry(local_store, TOPIC, name)
    assert newest
    assert newest.uuid == second.metadata.table_uuid, "another has its place, which nobody was done with"


def test_a_marker_that_cannot_be_read(local_store: ObjectStore) -> None:
    local_store.put_new(f"queue/{TOPIC}/tables/0000000001.json", b"{}")
    with pytest.raises(LogCorrupted, match=r"queue/orders/tables/0000000001\.json"):
        table_history(local_store, TOPIC)
