"""Tests that tables which Frazil did not create are adopted if the settings say so and they fit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.errors import SchemaEvolution, TableForeign, TableReplaced
from frazil.lake.tables.table_check import TableStatus
from tests.lake.opened import TABLE, Opened
from tests.lake.support import TOPIC, TOPIC_SCHEMA, local_config, nessie_config

ADOPT = {TOPIC: {"table": {"adopt": True}}}


@pytest.fixture(params=["sqlite", "nessie"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """Returns settings for each kind of catalog in turn."""
    if request.param == "sqlite":
        return local_config(tmp_path, topics=ADOPT)
    servers = [request.getfixturevalue(name) for name in ("nessie", "s3_server", "namespace")]
    return nessie_config(tmp_path, *servers, topics=ADOPT)


def test_a_table_is_adopted_when_told_so(config: Config) -> None:
    opened = Opened(config)
    given = pa.schema([pa.field("id", pa.int32()), pa.field("mine", pa.string())])
    opened.lake.ensure_namespace(opened.identifier[:-1])
    table = opened.lake.catalog.create_table(opened.identifier, given)
    table.append(pa.table({"id": [1], "mine": ["kept"]}, schema=given))
    before = table.current_snapshot()
    adopted = opened.open(pa.schema([("id", pa.int64()), ("text", pa.string())]))
    assert {field.name: (str(field.field_type), field.required) for field in adopted.schema().fields} == {
        "id": ("long", False),
        "mine": ("string", False),
        "text": ("string", False),
        "_log_partition": ("int", False),
        "_offset": ("long", False),
    }
    assert adopted.properties["frazil.topic"] == TOPIC
    assert adopted.properties["frazil.offset.0"] == "7"
    snapshot = adopted.current_snapshot()
    assert before
    assert snapshot
    assert snapshot.sequence_number == (before.sequence_number or 0) + 1
    assert snapshot.schema_id == adopted.metadata.current_schema_id
    assert adopted.scan().to_arrow().to_pylist() == [
        {"id": 1, "mine": "kept", "text": None, "_log_partition": None, "_offset": None}
    ]
    assert opened.open().metadata.table_uuid == adopted.metadata.table_uuid
    assert opened.status() is TableStatus.OK


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pa.schema([("id", pa.string())]), "'id' is string in the table, but long in the topic"),
        (
            pa.schema([pa.field("id", pa.int64()), pa.field("must", pa.int64(), nullable=False)]),
            "'must' is required in the table, but the topic does not have it",
        ),
        (pa.schema([("id", pa.int64()), ("_offset", pa.string())]), "'_offset' is string in the table"),
    ],
)
def test_a_table_that_does_not_fit_is_not_adopted(tmp_path: Path, given: pa.Schema, message: str) -> None:
    opened = Opened(local_config(tmp_path, topics=ADOPT))
    opened.lake.ensure_namespace(("frazil",))
    before = opened.lake.catalog.create_table(TABLE, given)
    with pytest.raises(SchemaEvolution, match=message):
        opened.open(pa.schema([("id", pa.int64())]))
    assert opened.lake.load(TABLE).metadata == before.metadata


def test_a_table_of_another_format_is_not_adopted(tmp_path: Path) -> None:
    opened = Opened(local_config(tmp_path, topics=ADOPT))
    opened.lake.ensure_namespace(("frazil",))
    opened.lake.catalog.create_table(TABLE, TOPIC_SCHEMA, properties={"format-version": "1"})
    with pytest.raises(TableForeign, match="version 1 of the table format"):
        opened.open()


def test_a_table_without_any_snapshot_gets_one(config: Config) -> None:
    opened = Opened(config)
    opened.make_foreign()
    assert opened.open().current_snapshot() is not None


def test_a_name_that_nobody_has_is_made_as_ever(config: Config) -> None:
    opened = Opened(config)
    assert opened.open().schema().find_field("_offset").required
    assert opened.status() is TableStatus.OK


def test_a_table_put_in_place_of_the_adopted_one_is_not_adopted_too(tmp_path: Path) -> None:
    opened = Opened(local_config(tmp_path, topics=ADOPT))
    opened.make_foreign()
    opened.open()
    opened.lake.catalog.drop_table(TABLE)
    opened.make_foreign()
    assert opened.status() is TableStatus.REPLACED
    with pytest.raises(TableReplaced):
        opened.open()
