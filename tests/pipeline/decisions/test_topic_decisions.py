"""Tests decisions about a topic that stopped: every record is in its tables as the person wanted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.errors import (
    ConfigError,
    DeadLetterMissing,
    EpochChanged,
    FrazilError,
    IcebergError,
    OffsetsAhead,
    SegmentsGone,
    TableDropped,
    TableReplaced,
    TableRolledBack,
)
from frazil.lake.catalog.lake import Identifier
from frazil.lake.commit.offsets import TableState
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.opening import open_derived_table
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier, find_table
from frazil.log.schema.columns import OFFSET
from frazil.log.segments.trim import trim
from frazil.pipeline.decisions.topic_decisions import TopicDecisions
from frazil.pipeline.move.context import PipelineContext
from tests.lake.support import local_config
from tests.log.support import SCHEMA, TOPIC, Machine, rows, writer
from tests.pipeline.support import broken, expect_once, found_offsets, move_all, pipeline_context

BASE = ("frazil", TOPIC)
LETTERS = ("frazil", f"{TOPIC}__dead_letter")
BIG = ("frazil", "big")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[PipelineContext]:
    derived = {"big": {"sql": "SELECT id FROM batch"}}
    with pipeline_context(local_config(tmp_path, topics={TOPIC: {"derived": derived}})) as context:
        yield context


def append(context: PipelineContext, *batches: pa.RecordBatch, seed: int = 0) -> None:
    with closing(writer(context.store, context.config.data_dir, Machine(seed))) as log:
        for batch in batches:
            log.append(batch)
            log.seal_all()


def about(context: PipelineContext) -> TopicDecisions:
    return TopicDecisions(context.config, context.lake, context.store, TOPIC)


def kinds(context: PipelineContext) -> dict[str, type[FrazilError]]:
    return {problem.table.name: type(problem.error) for problem in about(context).problems()}


def offsets(context: PipelineContext, name: Identifier) -> Counter[int]:
    return Counter(offset for _, offset in found_offsets(context.lake, name).elements())


def lose_log(context: PipelineContext) -> None:
    context.store.delete([info.key for info in context.store.list(f"queue/{TOPIC}/00000")])
    shutil.rmtree(context.config.data_dir / "wal")


def derive(context: PipelineContext, offset: int) -> None:
    """Makes the derived table as its mover does, filled up to this offset."""
    schema = base_table_schema(pa.schema([SCHEMA.field("id")]))
    open_derived_table(
        context.lake, context.store, context.config, TOPIC, "big", schema, {0: offset}, {0: newest_epoch(context)}
    )


def newest_epoch(context: PipelineContext) -> str:
    return TableState.of(context.lake.load(BASE)).epochs[0]


def everything(config: Config) -> dict[str, bytes]:
    """Returns all files except the one that SQLite's readers share."""
    files = (path for path in config.data_dir.rglob("*") if path.is_file() and path.suffix != ".db-shm")
    return {str(path): path.read_bytes() for path in files}


def roll_back(context: PipelineContext, name: Identifier, snapshots: int = 1) -> None:
    table = context.lake.load(name)
    earlier = table.metadata.snapshots[-1 - snapshots].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(earlier).commit()


def test_names_are_those_of_the_lake(context: PipelineContext) -> None:
    assert (base_identifier(context.config, TOPIC), dead_letter_identifier(context.config, TOPIC)) == (BASE, LETTERS)


def test_looking_makes_and_changes_nothing(context: PipelineContext) -> None:
    append(context, rows(0, 3))
    assert about(context).problems() == []
    assert find_table(context.lake, BASE) is None
    append(context, rows(3, 2).append_column("note", pa.array(["a", "b"])))
    context.lake.ensure_namespace(("frazil",))
    before = everything(context.config)
    assert about(context).problems() == []
    assert everything(context.config) == before
    assert not context.lake.catalog.list_tables(("frazil",))


def test_a_table_that_has_yet_to_follow_is_left_as_it_is(context: PipelineContext) -> None:
    append(context, rows(0, 3))
    move_all(context)
    append(context, rows(3, 1).append_column("note", pa.array(["a"])))
    before = context.lake.load(BASE).metadata
    assert about(context).problems() == []
    assert context.lake.load(BASE).metadata == before


def test_a_dropped_dead_letter_table(context: PipelineContext) -> None:
    append(context, rows(0, 2), broken(2, 1))
    move_all(context)
    context.lake.catalog.drop_table(LETTERS)
    append(context, broken(3, 1), rows(4, 1))
    with pytest.raises(TableDropped, match=r"resume orders --recreate --table frazil\.orders__dead_letter"):
        move_all(context)
    assert kinds(context) == {"frazil.orders__dead_letter": TableDropped}
    about(context).decide("recreate")
    assert about(context).problems() == []
    move_all(context)
    assert offsets(context, BASE) == Counter([0, 1, 4])
    assert offsets(context, LETTERS) == Counter([3])


def test_a_dead_letter_table_that_was_rolled_back(context: PipelineContext) -> None:
    append(context, broken(0, 1))
    move_all(context)
    append(context, broken(1, 1), rows(2, 1))
    move_all(context)
    roll_back(context, LETTERS)
    append(context, broken(3, 1), rows(4, 1))
    with pytest.raises(TableRolledBack, match=r"--accept --table frazil\.orders__dead_letter"):
        move_all(context)
    with pytest.raises(IcebergError, match=r"--replay does not help orders: .*letters that are missing stay so"):
        about(context).decide("replay")
    (text,) = about(context).decide("accept")
    assert text == "frazil.orders__dead_letter is taken as it is; it goes on at offset 1 of partition 0."
    move_all(context)
    assert offsets(context, LETTERS) == Counter([0, 3])
    assert offsets(context, BASE) == Counter([2, 4])


def test_another_table_where_the_dead_letters_were(context: PipelineContext) -> None:
    append(context, broken(0, 1))
    move_all(context)
    context.lake.catalog.drop_table(LETTERS)
    context.lake.catalog.create_table(LETTERS, base_table_schema(SCHEMA))
    (problem,) = about(context).problems()
    assert (type(problem.error), problem.decisions) == (TableReplaced, ())
    with pytest.raises(IcebergError, match="Rename it"):
        about(context).decide("accept")
    with pytest.raises(TableReplaced):
        about(context).decide("recreate", "orders__dead_letter")
    context.lake.catalog.rename_table(LETTERS, ("frazil", "theirs"))
    about(context).decide("recreate")
    append(context, broken(1, 1))
    move_all(context)
    assert offsets(context, LETTERS) == Counter([1])


def test_another_log_with_a_table_put_aside(context: PipelineContext) -> None:
    """Old dead letters have offsets that the new log gives to rows that fit."""
    append(context, rows(0, 2), broken(2, 1))
    move_all(context)
    derive(context, 3)
    lose_log(context)
    append(context, rows(0, 5), seed=1)
    with pytest.raises(EpochChanged, match=r"--recreate` puts the table aside.*resume orders --accept` keeps it"):
        move_all(context)
    assert kinds(context) == dict.fromkeys(
        ["frazil.orders", "frazil.orders__dead_letter", "frazil.big"], EpochChanged
    )
    done = about(context).decide("recreate")
    assert "frazil.orders with its rows is called frazil.orders__old_1 now." in done
    assert "The pipeline makes frazil.orders anew, with what the log has: from offset 0 of partition 0 on." in done
    assert about(context).problems() == []
    move_all(context)
    expect_once(found_offsets(context.lake, BASE), {0: 5})
    assert offsets(context, ("frazil", "orders__old_1")) == Counter([0, 1])
    assert offsets(context, ("frazil", "orders__dead_letter__old_1")) == Counter([2])
    assert find_table(context.lake, BIG) is None


def test_another_log_and_a_table_that_goes_on(context: PipelineContext) -> None:
    append(context, rows(0, 2))
    move_all(context)
    derive(context, 2)
    lose_log(context)
    append(context, rows(0, 5), seed=1)
    done = about(context).decide("accept")
    assert done == [
        "frazil.orders keeps its rows; it goes on at offset 2 of partition 0.",
        "What the log has from offset 0 up to 2 of partition 0 is not moved, as the table has other rows there.",
        "frazil.big keeps its rows; it goes on at offset 0 of partition 0.",
    ]
    assert about(context).problems() == []
    move_all(context)
    expect_once(found_offsets(context.lake, BASE), {0: 5})


def test_a_base_table_made_anew_takes_old_dead_letters_with_it(context: PipelineContext) -> None:
    """The next table may have another schema, so rows that did not fit are tried again."""
    append(context, rows(0, 2), broken(2, 1), rows(3, 1))
    move_all(context)
    context.lake.catalog.drop_table(BASE)
    about(context).decide("recreate")
    move_all(context)
    assert offsets(context, BASE) == Counter([0, 1, 3])
    assert offsets(context, LETTERS) == Counter([2])
    assert offsets(context, ("frazil", "orders__dead_letter__old_1")) == Counter([2])


def test_put_aside_twice(context: PipelineContext) -> None:
    for seed in (0, 1, 2):
        append(context, rows(0, 3 - seed), seed=seed)
        if seed:
            with pytest.raises(OffsetsAhead, match="--recreate"):
                move_all(context)
            about(context).decide("recreate")
        move_all(context)
        expect_once(found_offsets(context.lake, BASE), {0: 3 - seed})
        lose_log(context)
    assert [len(offsets(context, ("frazil", f"orders__old_{n}"))) for n in (1, 2)] == [3, 2]


def test_a_log_that_was_trimmed_too_far(context: PipelineContext) -> None:
    append(context, rows(0, 2))
    move_all(context)
    append(context, rows(2, 2), rows(4, 2))
    trim(context.store, TOPIC, 0, needed_from=4, grace_seconds=0, now_ms=context.world.clock.now_ms())
    with pytest.raises(SegmentsGone, match=r"needs offset 2 next, but the log starts at 4.*resume orders --accept"):
        move_all(context)
    assert kinds(context) == {"frazil.orders": SegmentsGone}
    assert about(context).decide("accept") == [
        "frazil.orders keeps its rows; it goes on at offset 4 of partition 0.",
        "What was from offset 2 up to 4 of partition 0 is in the log no more and stays missing.",
    ]
    move_all(context)
    assert offsets(context, BASE) == Counter([0, 1, 4, 5])


def test_a_derived_table_that_was_dropped_or_rolled_back(context: PipelineContext) -> None:
    append(context, rows(0, 2))
    move_all(context)
    derive(context, 0)
    table = context.lake.load(BIG)
    table.transaction().set_properties({"frazil.offset.0": "2"}).commit_transaction()
    (problem,) = about(context).problems()
    assert problem.decisions == ("replay", "accept")
    assert "--replay --table frazil.big" in str(problem.error)
    (text,) = about(context).decide("replay", "big")
    assert text == "frazil.big is filled again; it goes on at offset 0 of partition 0."
    context.lake.catalog.drop_table(BIG)
    assert kinds(context) == {"frazil.big": TableDropped}
    about(context).decide("recreate")
    assert about(context).problems() == []
    derive(context, 1)
    assert TableState.of(context.lake.load(BIG)).offsets == {0: 1}


def test_dead_letters_that_somebody_deleted(context: PipelineContext) -> None:
    """A letter that is missing below the dead-letter table's offset cannot be seen by examining the tables."""
    append(context, rows(0, 2), broken(2, 1))
    move_all(context)
    context.lake.load(LETTERS).delete(f"{OFFSET} == 2")
    roll_back(context, BASE)
    about(context).decide("replay")
    with pytest.raises(DeadLetterMissing, match="resume orders --recreate --table NAME"):
        move_all(context)
    assert about(context).problems() == []
    about(context).decide("recreate", "frazil.orders__dead_letter")
    move_all(context)
    assert offsets(context, BASE) == Counter([0, 1])
    assert offsets(context, LETTERS) == Counter([2])


def test_a_base_table_that_is_fine_is_not_put_aside(context: PipelineContext) -> None:
    append(context, rows(0, 2))
    move_all(context)
    for name in (None, "orders"):
        with pytest.raises(IcebergError, match=r"--recreate does not help .*nothing stops it"):
            about(context).decide("recreate", name)
    with pytest.raises(ConfigError, match=r"no table of topic 'orders'\. Its tables: frazil\.orders, "):
        about(context).decide("recreate", "order")
    expect_once(found_offsets(context.lake, BASE), {0: 2})
