"""Tests that dead letters that can be decoded now become rows of the base table, each exactly once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.errors import TableNotFound, TableRolledBack
from frazil.lake.commit.offsets import TableState
from frazil.log.schema.columns import OFFSET
from frazil.pipeline.deadletters import letters
from frazil.pipeline.deadletters import replay as replaying
from frazil.pipeline.deadletters.letters import RecordLocation
from frazil.pipeline.deadletters.replay import Replay
from frazil.pipeline.decisions.topic_decisions import TopicDecisions
from frazil.pipeline.move.context import PipelineContext
from frazil.scan.topic_rows import TopicRows
from tests.lake.commit.commits import compact
from tests.lake.kafka_records import TOPIC, put
from tests.lake.support import local_config, nessie_config
from tests.pipeline.deadletters.replay_process import replay, replay_until
from tests.pipeline.mover_process import move_until
from tests.pipeline.support import expect_once, found_offsets, move_all, pipeline_context
from tests.servers.shared import NessieServer, S3Server

STRICT = {"format": {"value": "json"}}
MENDED = {"format": {"value": "string"}}
"""With these settings everything that is UTF-8 can be decoded."""
BAD = b"{no json"
HOPELESS = b"\xff"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return local_config(tmp_path, kafka=STRICT)


@pytest.fixture
def context(config: Config) -> Iterator[PipelineContext]:
    with pipeline_context(config) as context:
        yield context


def mended(config: Config) -> Config:
    return Config.model_validate({**config.model_dump(), "kafka": MENDED})


def name(config: Config, suffix: str = "") -> tuple[str, ...]:
    return (config.lake.namespace, f"{TOPIC}{suffix}")


def fill(context: PipelineContext, *segments: list[Any]) -> None:
    put(context.store, context.config.data_dir, *segments)


def table(context: PipelineContext, suffix: str = "") -> pa.Table:
    return context.lake.load(name(context.config, suffix)).scan().to_arrow().sort_by(OFFSET)


def marked(context: PipelineContext) -> dict[int, bool]:
    found = table(context, "__dead_letter")
    return {row[OFFSET]: row["replayed_at"] is not None for row in found.to_pylist()}


def test_a_letter_that_can_be_read_now_becomes_a_row_under_its_old_offset(context: PipelineContext) -> None:
    fill(context, [{"a": 1}, BAD, {"a": 3}, HOPELESS])
    move_all(context, TOPIC)
    before = TableState.of(context.lake.load(name(context.config)))
    done = replay(context.config, TOPIC)
    assert (done.rows, done.found, done.waiting) == (0, 0, [])
    assert list(done.stuck) == [RecordLocation(0, 1), RecordLocation(0, 3)]
    assert done.stuck[RecordLocation(0, 1)].startswith("value: ")
    done = replay(mended(context.config), TOPIC)
    assert (done.rows, list(done.stuck)) == (1, [RecordLocation(0, 3)])
    assert table(context).select([OFFSET, "_kafka_offset", "a", "value"]).to_pylist() == [
        {OFFSET: 0, "_kafka_offset": 1000, "a": 1, "value": None},
        {OFFSET: 1, "_kafka_offset": 1002, "a": None, "value": BAD.decode()},
        {OFFSET: 2, "_kafka_offset": 1004, "a": 3, "value": None},
    ]
    after = TableState.of(context.lake.load(name(context.config)))
    assert (after.offsets, after.epochs) == (before.offsets, before.epochs)
    assert marked(context) == {1: True, 3: False}
    again = replay(mended(context.config), TOPIC)
    assert (again.rows, again.found) == (0, 1)
    fill(context, [{"a": 5}, BAD])
    move_all(context, TOPIC)
    assert table(context)[OFFSET].to_pylist() == [0, 1, 2, 4]
    assert marked(context) == {1: True, 3: False, 5: False}
    union = TopicRows(context.config, TOPIC, lake=context.lake)
    assert sorted(o for batch in union.read(0) for o in batch.column(OFFSET).to_pylist()) == [0, 1, 2, 4]


def test_a_letter_that_clashes_does_not_keep_others_from_new_columns(tmp_path: Path) -> None:
    fine, strict = (
        local_config(tmp_path, kafka={"format": {"value": "json", "key": key}}) for key in ("raw", "json")
    )
    with pipeline_context(fine) as context:
        for partition in range(2):
            put(context.store, fine.data_dir, [{"x": 1}], partition=partition)
        move_all(context, TOPIC)
    with pipeline_context(strict) as context:
        put(context.store, fine.data_dir, [{"p": 1}, {"q": 1}], partition=0)
        put(context.store, fine.data_dir, [{"p": "x"}, {"r": 5}, {"P": 1}], partition=1)
        move_all(context, TOPIC)
        assert table(context).num_rows == 2, "no key is JSON"
        done = replay(fine, TOPIC)
        assert (done.rows, sorted(done.stuck)) == (3, [RecordLocation(1, 1), RecordLocation(1, 3)])
        assert "should be int64" in done.stuck[RecordLocation(1, 1)]
        found = [tuple(row.values()) for row in table(context).select(["p", "q", "r"]).to_pylist()]
        assert [row for row in found if any(row)] == [(1, None, None), (None, 1, None), (None, None, 5)]


def test_large_letters_are_replayed_some_at_a_time(context: PipelineContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "BYTES_PER_COMMIT", 2500)
    fill(context, [b"x" * 1000] * 5)
    move_all(context, TOPIC)
    before = len(context.lake.load(name(context.config)).snapshots())
    assert replay(mended(context.config), TOPIC).rows == 5
    assert len(context.lake.load(name(context.config)).snapshots()) - before == 3
    assert all(marked(context).values())


def test_letters_are_chosen(context: PipelineContext) -> None:
    fill(context, [BAD, BAD, BAD])
    move_all(context, TOPIC)
    one = Replay(mended(context.config), context.lake, context.store, TOPIC)
    assert one.run(letters.letter_filter(0, 1)).rows == 1
    assert marked(context) == {0: False, 1: True, 2: False}


def test_a_topic_without_letters_says_so(context: PipelineContext) -> None:
    fill(context, [{"a": 1}])
    move_all(context, TOPIC)
    with pytest.raises(TableNotFound, match="has no dead-letter table"):
        replay(context.config, TOPIC)


FAILPOINTS = ["evolve.committed", "replay.written", "replay.unmarked", "letters.written", "letters.marked"]


def test_killed_somewhere(context: PipelineContext, seed: int) -> None:
    check_killed(context, random.Random(seed).choice(FAILPOINTS))


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_killed_while_replaying(context: PipelineContext, failpoint: str) -> None:
    check_killed(context, failpoint)


def check_killed(context: PipelineContext, failpoint: str) -> None:
    fill(context, [{"a": 1}, BAD, BAD, HOPELESS])
    move_all(context, TOPIC)
    replay_until(failpoint, mended(context.config), TOPIC)
    done = replay(mended(context.config), TOPIC)
    assert done.rows + done.found == 2
    assert table(context)[OFFSET].to_pylist() == [0, 1, 2]
    assert marked(context) == {1: True, 2: True, 3: False}


def test_two_at_a_time_with_a_mover_between_them(context: PipelineContext) -> None:
    fill(context, *([BAD, {"a": number}] for number in range(20)))
    move_all(context, TOPIC)
    fill(context, *([BAD, {"a": number}] for number in range(5)))

    def move() -> None:
        with pipeline_context(context.config, 1) as other:
            move_all(other, TOPIC, batch_rows=2)

    with ThreadPoolExecutor(3) as pool:
        replays = [pool.submit(replay, mended(context.config), TOPIC) for _ in range(2)]
        pool.submit(move).result()
        assert sum(each.result().rows for each in replays) >= 20
    expected = {offset for offset in range(50) if offset % 2 or offset < 40}
    found = found_offsets(context.lake, name(context.config))
    assert {(0, offset) for offset in expected} <= set(found)
    assert set(found.values()) == {1}
    replay(mended(context.config), TOPIC)
    expect_once(found_offsets(context.lake, name(context.config)), {0: 50})
    assert all(marked(context).values())


def test_letters_above_the_offset_of_the_base_table_wait_for_it(context: PipelineContext) -> None:
    """The log would be read there as well, so the row would be duplicated."""
    fill(context, [{"a": 1}, BAD])
    move_until("flush.dead-letters-committed", context.config, TOPIC)
    done = replay(mended(context.config), TOPIC)
    assert (done.rows, done.waiting) == (0, [RecordLocation(0, 1)])
    move_all(context, TOPIC)
    assert table(context)[OFFSET].to_pylist() == [0]
    assert replay(mended(context.config), TOPIC).rows == 1


def roll_back(context: PipelineContext, snapshots: int) -> None:
    base = context.lake.load(name(context.config))
    earlier = base.metadata.snapshots[-1 - snapshots].snapshot_id
    base.manage_snapshots().rollback_to_snapshot(earlier).commit()


@pytest.mark.parametrize("snapshots", [1, 2, 3])
def test_rolled_back_and_moved_again(context: PipelineContext, snapshots: int) -> None:
    """The rollback removes the last batch, the replay before it, and the batch with the letter before that."""
    fill(context, [{"a": 0}])
    move_all(context, TOPIC)
    fill(context, [BAD, {"a": 2}])
    move_all(context, TOPIC)
    assert replay(mended(context.config), TOPIC).rows == 1
    fill(context, [{"a": 3}])
    move_all(context, TOPIC)
    roll_back(context, snapshots)
    with pytest.raises(TableRolledBack):
        replay(mended(context.config), TOPIC)
    TopicDecisions(context.config, context.lake, context.store, TOPIC).decide("replay")
    move_all(context, TOPIC)
    kept = snapshots == 1
    assert table(context)[OFFSET].to_pylist() == ([0, 1, 2, 3] if kept else [0, 2, 3])
    done = replay(mended(context.config), TOPIC)
    assert (done.rows, done.found) == ((0, 1) if kept else (1, 0))
    assert table(context)[OFFSET].to_pylist() == [0, 1, 2, 3]


def test_what_retention_took_is_not_brought_back(context: PipelineContext) -> None:
    fill(context, [BAD, {"a": 1}])
    move_all(context, TOPIC)
    assert replay(mended(context.config), TOPIC).rows == 1
    base = context.lake.load(name(context.config))
    base.delete("_offset == 0")
    base = context.lake.load(name(context.config))
    base.transaction().set_properties({"frazil.complete-from.0": "1"}).commit_transaction()
    done = replay(mended(context.config), TOPIC)
    assert (done.rows, done.found) == (0, 0)
    assert table(context)[OFFSET].to_pylist() == [1]


def test_compaction_between(context: PipelineContext) -> None:
    for number in range(3):
        fill(context, [BAD, {"a": number}])
        move_all(context, TOPIC)
    replay(mended(context.config), TOPIC)
    compact(context.lake, name(context.config), count=3)
    compact(context.lake, name(context.config, "__dead_letter"), count=2)
    again = replay(mended(context.config), TOPIC)
    assert (again.rows, again.found) == (0, 3)
    expect_once(found_offsets(context.lake, name(context.config)), {0: 6})
    assert all(marked(context).values())


def test_on_a_rest_catalog(tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str) -> None:
    config = nessie_config(tmp_path, nessie, s3_server, namespace, kafka=STRICT)
    with pipeline_context(config) as context:
        fill(context, [BAD, {"a": 1}])
        move_all(context, TOPIC)
        assert replay(mended(config), TOPIC).rows == 1
        assert replay(mended(config), TOPIC).found == 1
        assert (table(context)[OFFSET].to_pylist(), marked(context)) == ([0, 1], {0: True})
