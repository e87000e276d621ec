"""Tests topics whose records are bytes: their rows are in the table as their format says, each once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import DeadLetterMissing
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.pipeline.decisions.topic_decisions import TopicDecisions
from frazil.pipeline.move.context import PipelineContext
from tests.lake.kafka_records import TOPIC, door, kafka_offset, put, records
from tests.lake.support import local_config
from tests.pipeline.mover_process import move_until
from tests.pipeline.support import expect_once, found_offsets, move_all, pipeline_context

BASE = ("frazil", TOPIC)
LETTERS = ("frazil", f"{TOPIC}__dead_letter")


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[PipelineContext]:
    with pipeline_context(local_config(tmp_path)) as context:
        yield context


@pytest.fixture
def context(tmp_path: Path) -> Iterator[PipelineContext]:
    with pipeline_context(local_config(tmp_path, kafka={"format": {"value": "json"}})) as context:
        yield context


def fill(context: PipelineContext, *segments: list[Any], partition: int = 0) -> None:
    put(context.store, context.config.data_dir, *segments, partition=partition)


def table(context: PipelineContext, name: tuple[str, ...] = BASE) -> pa.Table:
    return context.lake.load(name).scan().to_arrow().sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


def snapshots(context: PipelineContext) -> int:
    return len(context.lake.load(BASE).metadata.snapshots)


def schemas(context: PipelineContext) -> int:
    return len(context.lake.load(BASE).metadata.schemas)


def test_everything_that_kafka_knows_arrives(raw: PipelineContext) -> None:
    with closing(door(raw.store, raw.config.data_dir)) as log:
        log.submit(records(0, [b"one", None, b"\xff\x00"], keys=[b"k", None, b""]))
        log.seal_all()
    move_all(raw, TOPIC)
    found = table(raw)
    assert found["value"].to_pylist() == [b"one", None, b"\xff\x00"]
    assert found["_kafka_key"].to_pylist() == [b"k", None, b""]
    assert found["_kafka_offset"].to_pylist() == [kafka_offset(offset) for offset in range(3)]
    assert found["_kafka_partition"].to_pylist() == [0, 0, 0]
    assert found["_kafka_timestamp_type"].to_pylist() == [0, 0, 0]
    assert found["_kafka_timestamp"].cast(pa.int64()).to_pylist() == [
        (1_700_000_000_000 + kafka_offset(offset)) * 1000 for offset in range(3)
    ]
    assert found["_kafka_headers"].to_pylist()[1] == [{"key": "n", "value": str(kafka_offset(1)).encode()}]
    assert found[OFFSET].to_pylist() == [0, 1, 2]
    assert (snapshots(raw), schemas(raw)) == (2, 1)


def test_fields_are_columns_and_new_ones_come_as_they_come(context: PipelineContext) -> None:
    fill(context, [{"a": 1}, {"a": 2, "b": "x"}])
    move_all(context, TOPIC)
    assert (snapshots(context), schemas(context)) == (2, 1), "what the first records need is there from the start"
    fill(context, [{"a": 3}], [{"c": [1.5]}, None, {"a": 4, "d": {"e": 1}}], [{"d": {"f": "y"}}])
    fill(context, [{"c": [], "g": True}], partition=1)
    move_all(context, TOPIC)
    found = table(context)
    assert found["a"].to_pylist() == [1, 2, 3, None, None, 4, None, None]
    assert found["c"].to_pylist() == [None, None, None, [1.5], None, None, None, []]
    assert found["d"].to_pylist()[5:7] == [{"e": 1, "f": None}, {"e": None, "f": "y"}]
    assert found["_kafka_tombstone"].to_pylist() == [False] * 4 + [True] + [False] * 3
    assert schemas(context) == 2, "all that the batch needs at once"
    fill(context, [{"a": 5, "d": {"e": 2}}])
    move_all(context, TOPIC)
    assert (snapshots(context), schemas(context)) == (4, 2)
    expect_once(found_offsets(context.lake, BASE), {0: 8, 1: 1})


def test_a_new_column_gets_the_widest_of_its_types(context: PipelineContext) -> None:
    fill(context, [{"a": 1}])
    move_all(context, TOPIC)
    fill(context, [{"price": 1}], [{"price": 1.5}])
    fill(context, [{"price": None}, {"price": 2}], partition=1)
    move_all(context, TOPIC)
    assert table(context)["price"].to_pylist() == [None, 1.0, 1.5, None, 2.0]


def test_records_that_cannot_be_decoded_are_dead_letters(context: PipelineContext) -> None:
    fill(context, [{"a": 1}, b"{no json", {"a": 3}], [b"\xff", None])
    move_all(context, TOPIC)
    assert table(context)[OFFSET].to_pylist() == [0, 2, 4]
    letters = table(context, LETTERS)
    assert letters[OFFSET].to_pylist() == [1, 3]
    assert letters["value"].to_pylist() == [b"{no json", b"\xff"]
    assert letters["key"].to_pylist() == [f"k{kafka_offset(offset) % 7}".encode() for offset in (1, 3)]
    assert letters["_kafka_offset"].to_pylist() == [kafka_offset(1), kafka_offset(3)]
    assert letters["_kafka_partition"].to_pylist() == [0, 0]
    assert letters["replayed_at"].to_pylist() == [None, None]
    assert all(error.startswith("value: ") for error in letters["error"].to_pylist())
    assert context.metrics.dead_letters.labels(TOPIC)._value.get() == 2


def test_dead_letters_and_new_columns_in_one_batch(context: PipelineContext) -> None:
    fill(context, [{"a": 1}])
    move_all(context, TOPIC)
    fill(context, [{"b": 1}, b"no"], [b"neither", {"c": 2}])
    move_all(context, TOPIC)
    assert table(context)[OFFSET].to_pylist() == [0, 1, 4]
    assert table(context, LETTERS)[OFFSET].to_pylist() == [2, 3]


CLASHES: dict[str, list[Any]] = {
    "types": [{"n": 1}, {"n": "s"}],
    "case": [{"id": 1}, {"ID": 2}],
    "case inside": [{"o": {"id": 1}}, {"o": {"ID": 2}}],
    "paths": [{"a": {"b": 1}}, {"a.b": 2}],
    "items": [{"a": [1]}, {"a.element": 2}],
}


@pytest.mark.parametrize("clash", CLASHES.values(), ids=CLASHES)
@pytest.mark.parametrize("before", [[], [{"x": 1}]], ids=["new table", "old table"])
def test_what_clashes_is_a_dead_letter_wherever_segments_end(
    tmp_path: Path, clash: list[Any], before: list[Any]
) -> None:
    first, second = clash
    for number, segments in enumerate(([[first, second, first]], [[first], [second], [first]])):
        with pipeline_context(local_config(tmp_path / str(number), kafka={"format": {"value": "json"}})) as context:
            if before:
                fill(context, before)
                move_all(context, TOPIC)
            fill(context, *segments)
            about = TopicDecisions(context.config, context.lake, context.store, TOPIC)
            assert not about.problems()
            hot = frazil.read(TOPIC, config=context.config).table()
            move_all(context, TOPIC)
            start = len(before)
            assert table(context)[OFFSET].to_pylist() == [*range(start), start, start + 2]
            assert table(context, LETTERS)[OFFSET].to_pylist() == [start + 1]
            assert sorted(hot[OFFSET].to_pylist()) == table(context)[OFFSET].to_pylist()
            assert frazil.read(TOPIC, config=context.config).table().num_rows == start + 2


def test_a_name_with_a_nul_is_a_dead_letter(context: PipelineContext) -> None:
    fill(context, [{"a": 1}, {"b\0c": 2}, {"o": {"\0": 1}}, {"a": 3}])
    move_all(context, TOPIC)
    assert table(context)[OFFSET].to_pylist() == [0, 3]
    assert table(context, LETTERS)[OFFSET].to_pylist() == [1, 2]


def test_after_a_type_was_accepted_records_of_the_old_one_go_to_the_column_put_aside(
    context: PipelineContext,
) -> None:
    fill(context, [{"x": 1}])
    move_all(context, TOPIC)
    fill(context, [{"n": 1}], [{"n": "s"}])
    TopicDecisions(context.config, context.lake, context.store, TOPIC).decide("accept-schema")
    fill(context, [{"n": 2}, {"n": True}, {"n": "t"}, b"no", {"n": 3, "new": 1.5}])
    hot = frazil.read(TOPIC, config=context.config).table().sort_by(OFFSET)
    move_all(context, TOPIC)
    found = table(context)
    assert found[OFFSET].to_pylist() == hot[OFFSET].to_pylist() == [0, 1, 2, 3, 5, 7]
    assert found["n"].to_pylist() == hot["n"].to_pylist() == [None, None, "s", None, "t", None]
    assert found["n__1"].to_pylist() == hot["n__1"].to_pylist() == [None, 1, None, 2, None, 3]
    assert found["new"].to_pylist()[-1] == 1.5
    assert table(context, LETTERS)[OFFSET].to_pylist() == [4, 6]


def test_what_the_dead_letters_decided_stays_so_when_decoders_disagree(tmp_path: Path) -> None:
    """A batch that was killed between its two commits is decoded again, by decoders that know less and more."""
    objects, less, more = (
        local_config(tmp_path, kafka={"format": {"value": value, "key": key}})
        for value, key in (("json", "raw"), ("json", "json"), ("string", "raw"))
    )
    with pipeline_context(objects) as context:
        fill(context, [{"a": 1}, b"text", {"a": 3}])
        move_until("flush.dead-letters-committed", objects, TOPIC)
        assert table(context, LETTERS)[OFFSET].to_pylist() == [1]
        assert table(context).num_rows == 0
    with (
        pipeline_context(less) as context,
        pytest.raises(DeadLetterMissing, match="clicks/0: the record at offset 0 cannot"),
    ):
        move_all(context, TOPIC)
    with pipeline_context(more) as context:
        move_all(context, TOPIC)
        assert table(context).select([OFFSET, "value"]).to_pylist() == [
            {OFFSET: 0, "value": '{"a": 1}'},
            {OFFSET: 2, "value": '{"a": 3}'},
        ]


FAILPOINTS = ["follow.wanted", "evolve.committed", "follow.done", "task.before-close"]


def test_killed_somewhere_while_the_table_follows(context: PipelineContext, seed: int) -> None:
    check_killed(context, random.Random(seed).choice(FAILPOINTS))


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_killed_while_the_table_follows(context: PipelineContext, failpoint: str) -> None:
    check_killed(context, failpoint)


def check_killed(context: PipelineContext, failpoint: str) -> None:
    fill(context, [{"a": 1}])
    move_all(context, TOPIC)
    fill(context, [{"a": 2, "b": "x"}, b"no"], [{"c": 1}])
    move_until(failpoint, context.config, TOPIC)
    move_all(context, TOPIC)
    found = table(context)
    assert found.select([OFFSET, "a", "b", "c"]).to_pylist() == [
        {OFFSET: 0, "a": 1, "b": None, "c": None},
        {OFFSET: 1, "a": 2, "b": "x", "c": None},
        {OFFSET: 3, "a": None, "b": None, "c": 1},
    ]
    assert table(context, LETTERS)[OFFSET].to_pylist() == [2]
