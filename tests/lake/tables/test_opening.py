"""Tests that a topic's tables are created once, recognised afterwards, and never mistaken for others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from frazil.errors import FrazilError, TableDropped, TableForeign, TableReplaced
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.opening import open_base_table, open_dead_letter_table, open_derived_table
from frazil.lake.tables.table_check import TableStatus
from frazil.lake.tables.table_history import table_history
from frazil.log.topics.schemas import list_partitions, list_topics
from tests.lake.opened import TABLE, Opened
from tests.lake.support import EPOCH, TOPIC, TOPIC_SCHEMA, local_config, nessie_config
from tests.servers.shared import NessieServer, S3Server


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(local_config(tmp_path))


def test_a_table_that_never_was_is_made_at_the_start_of_the_log(opened: Opened) -> None:
    assert opened.status() is TableStatus.NEVER_CREATED
    table = opened.open(start=12)
    assert table.properties["frazil.offset.0"] == "12"
    assert opened.status() is TableStatus.OK
    (marker,) = table_history(opened.store, TOPIC)
    assert (marker.identifier, marker.uuid, marker.role) == (TABLE, table.metadata.table_uuid, "base")


def test_opening_again_changes_nothing(opened: Opened) -> None:
    first = opened.open()
    again = opened.open(start=99)
    assert again.metadata == first.metadata
    assert len(table_history(opened.store, TOPIC)) == 1


def test_markers_are_no_partitions(opened: Opened) -> None:
    opened.open()
    opened.store.put_new(f"queue/{TOPIC}/00003/writer.json", b"{}")
    assert list_partitions(opened.store, TOPIC) == [3]
    assert list_topics(opened.store) == [TOPIC]


def test_a_dropped_table_is_made_anew_only_when_told_so(opened: Opened) -> None:
    old = opened.open()
    opened.lake.catalog.drop_table(TABLE)
    with pytest.raises(TableDropped, match="frazil topics resume orders --recreate") as caught:
        opened.open()
    assert not caught.value.retryable
    with pytest.raises(TableDropped):
        opened.accept()
    table = opened.recreate()
    assert table.metadata.table_uuid != old.metadata.table_uuid
    assert opened.open().metadata.table_uuid == table.metadata.table_uuid
    assert [marker.uuid for marker in table_history(opened.store, TOPIC)] == [
        old.metadata.table_uuid,
        None,
        table.metadata.table_uuid,
    ]


def test_what_is_made_anew_has_a_folder_of_its_own(opened: Opened) -> None:
    """The old table may still exist under another name, and maintenance must not touch its files."""
    old = opened.open()
    opened.lake.catalog.rename_table(TABLE, ("frazil", "kept"))
    assert opened.recreate().location() not in {old.location(), f"{old.location()}/"}


def test_a_replaced_table_is_used_only_when_told_so(opened: Opened) -> None:
    ours = opened.open()
    opened.lake.catalog.drop_table(TABLE)
    other = opened.make_foreign(**{"frazil.topic": TOPIC, "frazil.role": "base", "frazil.offset.0": "40"})
    with pytest.raises(TableReplaced) as caught:
        opened.open()
    assert str(ours.metadata.table_uuid) in str(caught.value)
    assert str(other.metadata.table_uuid) in str(caught.value)
    assert not caught.value.retryable
    assert opened.accept().properties["frazil.offset.0"] == "40"
    assert opened.open().metadata.table_uuid == other.metadata.table_uuid


def test_a_replacement_that_knows_no_offsets_begins_at_the_start(opened: Opened) -> None:
    opened.open()
    opened.lake.catalog.drop_table(TABLE)
    opened.make_foreign()
    assert opened.status() is TableStatus.REPLACED
    assert opened.accept().properties["frazil.offset.0"] == "7"
    assert opened.status() is TableStatus.OK


def test_a_table_of_somebody_else_is_refused(opened: Opened) -> None:
    before = opened.make_foreign()
    with pytest.raises(TableForeign, match=r"not made by Frazil.*topics\.orders\.table\.adopt"):
        opened.open()
    assert opened.lake.load(TABLE).metadata == before.metadata


def test_a_table_of_another_topic_is_refused(tmp_path: Path, opened: Opened) -> None:
    opened.open()
    config = local_config(tmp_path, topics={"other": {"table": {"name": TOPIC, "adopt": True}}})
    with pytest.raises(TableForeign, match="is the base table of topic 'orders', not the base table of 'other'"):
        open_base_table(Lake(config), opened.store, config, "other", TOPIC_SCHEMA, {}, {})


def test_topics_whose_tables_would_have_the_same_name(tmp_path: Path, opened: Opened) -> None:
    lake, store, config = opened.lake, opened.store, opened.config
    open_base_table(lake, store, config, "a.b.c", TOPIC_SCHEMA, {}, {})
    with pytest.raises(TableForeign, match=r"of topic 'a\.b\.c'.*topics\.a_b_c\.table\.name"):
        open_base_table(lake, store, config, "a_b_c", TOPIC_SCHEMA, {}, {})


def test_a_topic_that_grew_finds_its_columns_when_it_is_opened(opened: Opened) -> None:
    opened.open()
    table = opened.open(TOPIC_SCHEMA.append(pa.field("more", pa.float64())))
    assert str(table.schema().find_field("more").field_type) == "double"


def test_dead_letter_and_derived_tables(tmp_path: Path) -> None:
    topics = {TOPIC: {"derived": {"big": {"sql": "SELECT id FROM batch", "sort_by": ["id"]}}}}
    opened = Opened(local_config(tmp_path, topics=topics))
    lake, store, config = opened.lake, opened.store, opened.config
    letters = open_dead_letter_table(lake, store, config, TOPIC, {0: 3}, {0: EPOCH})
    assert letters.name() == ("frazil", "orders__dead_letter")
    assert letters.properties["frazil.role"] == "dead-letter"
    schema = base_table_schema(pa.schema([("id", pa.int64())]))
    derived = open_derived_table(lake, store, config, TOPIC, "big", schema, {0: 3}, {0: EPOCH})
    assert derived.properties["frazil.role"] == "derived"
    assert len(derived.sort_order().fields) == 1
    lake.catalog.drop_table(letters.name())
    with pytest.raises(TableDropped, match=r"--recreate --table frazil\.orders__dead_letter"):
        open_dead_letter_table(lake, store, config, TOPIC, {0: 3}, {0: EPOCH})
    assert open_derived_table(lake, store, config, TOPIC, "big", schema, {}, {}).metadata == derived.metadata


STEPS = ["create.staged", "create.snapshot", "create.committed", "create.unmarked"]


def killed(arguments: list[str], step: str) -> None:
    """Runs a creator that dies at this step."""
    command = [sys.executable, "-m", "tests.lake.tables.creator", *arguments]
    done = subprocess.run(command, env={**os.environ, "FRAZIL_FAILPOINT": step}, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_a_creator_killed_half_way_blocks_nobody(tmp_path: Path, step: str) -> None:
    killed([str(tmp_path)], step)
    _goes_on(Opened(local_config(tmp_path)))


@pytest.mark.parametrize("step", STEPS)
def test_a_creator_killed_half_way_on_rest_blocks_nobody(
    tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str, step: str
) -> None:
    killed([str(tmp_path), nessie.endpoint, s3_server.endpoint, namespace], step)
    opened = Opened(nessie_config(tmp_path, nessie, s3_server, namespace))
    table = _goes_on(opened)
    left = [each for each in opened.lake.catalog.list_tables((namespace,)) if each != opened.identifier]
    # The unfinished table has a name that no topic has.
    assert all(each[-1].startswith(f"{TOPIC}__new_") for each in left)
    assert len(left) == (1 if step in {"create.staged", "create.snapshot"} else 0)
    assert len(table.scan().to_arrow()) == 1


@pytest.mark.parametrize("step", ["retire.renamed", *STEPS])
def test_somebody_killed_while_recreating_blocks_nobody(tmp_path: Path, step: str) -> None:
    opened = Opened(local_config(tmp_path))
    opened.open()
    opened.lake.catalog.drop_table(TABLE)
    killed(["--recreate", str(tmp_path)], step)
    if opened.status() is TableStatus.DROPPED:
        opened.recreate()
    _goes_on(opened)


def _goes_on(opened: Opened) -> Table:
    """Checks that the table is complete, or is created completely, and can be written to."""
    table = opened.open()
    assert table.current_snapshot() is not None
    assert table.properties["frazil.offset.0"] == "7"
    assert opened.status() is TableStatus.OK
    assert table.metadata.table_uuid == table_history(opened.store, TOPIC)[-1].uuid
    row = [{"id": 1, "text": "x", "_log_partition": 0, "_offset": 7}]
    table.append(pa.Table.from_pylist(row, schema=arrow_schema(table.schema())))
    return table


def test_every_refusal_is_for_a_person_to_decide(opened: Opened) -> None:
    refusals: list[Callable[[], object]] = [opened.open, opened.accept]
    opened.open()
    opened.lake.catalog.drop_table(TABLE)
    for refused in refusals:
        with pytest.raises(FrazilError) as caught:
            refused()
        assert (caught.value.retryable, caught.value.exit_code) == (False, 3)
