"""Tests that a table is put aside for another of its name, and keeps its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import TableForeign
from frazil.lake.tables.put_aside import put_table_aside
from frazil.lake.tables.table_check import TableStatus
from frazil.lake.tables.table_history import table_history
from tests.lake.opened import TABLE, Opened
from tests.lake.support import TOPIC, local_config, nessie_config
from tests.servers.shared import NessieServer, S3Server


def put_aside_twice(opened: Opened) -> None:
    folders = set()
    for number in (1, 2):
        old = opened.open()
        aside = put_table_aside(opened.lake, opened.store, opened.check())
        assert aside == (*opened.identifier[:-1], f"{TOPIC}__old_{number}")
        assert opened.lake.load(aside).metadata.table_uuid == old.metadata.table_uuid
        assert opened.status() is TableStatus.NEVER_CREATED
        folders.add(old.location())
    folders.add(opened.open().location())
    assert len(folders) == 3
    assert opened.status() is TableStatus.OK


def test_tables_are_put_aside_one_after_another(tmp_path: Path) -> None:
    put_aside_twice(Opened(local_config(tmp_path)))


def test_on_rest_too(tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str) -> None:
    put_aside_twice(Opened(nessie_config(tmp_path, nessie, s3_server, namespace)))


def test_nothing_to_put_aside(tmp_path: Path) -> None:
    opened = Opened(local_config(tmp_path))
    assert put_table_aside(opened.lake, opened.store, opened.check()) is None
    assert table_history(opened.store, TOPIC) == []


def test_a_table_that_came_back_is_not_mistaken_for_its_successor(tmp_path: Path) -> None:
    opened = Opened(local_config(tmp_path))
    opened.open()
    aside = put_table_aside(opened.lake, opened.store, opened.check())
    assert aside is not None
    opened.lake.catalog.rename_table(aside, TABLE)
    assert opened.status() is TableStatus.REPLACED
    opened.accept()
    assert opened.status() is TableStatus.OK


def test_what_is_not_ours_is_not_moved(tmp_path: Path) -> None:
    opened = Opened(local_config(tmp_path))
    opened.make_foreign()
    with pytest.raises(TableForeign):
        put_table_aside(opened.lake, opened.store, opened.check())
    assert opened.lake.catalog.table_exists(TABLE)
