"""Dead letters that can be read now come into the base table, each once, whatever happens meanwhile."""

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
from frazil.pipeline.deadletters.letters import Place
from frazil.pipeline.deadletters.replay import Replay
from frazil.pipeline.decisions.topic import Topic
from frazil.pipeline.move.tools import Tools
from frazil.scan.topic_rows import TopicRows
from tests.lake.commit.commits import compact
from tests.lake.records import TOPIC, put
from tests.lake.support import local_config, nessie_config
from tests.pipeline.deadletters.replaying import replay, replay_until
from tests.pipeline.moving import move_until
from tests.pipeline.support import expect_once, found_offsets, move_all, tools_of
from tests.servers.shared import NessieServer, S3Server

STRICT = {"format": {"value": "json"}}
MENDED = {"format": {"value": "string"}}
"""With it everything that is UTF-8 can be read."""
BAD = b"{no json"
HOPELESS = b"\xff"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return local_config(tmp_path, kafka=STRICT)


@pytest.fixture
def tools(config: Config) -> Iterator[Tools]:
    with tools_of(config) as tools:
        yield tools


def mended(config: Config) -> Config:
    return Config.model_validate({**config.model_dump(), "kafka": MENDED})


def name(config: Config, suffix: str = "") -> tuple[str, ...]:
    return (config.lake.namespace, f"{TOPIC}{suffix}")


def fill(tools: Tools, *segments: list[Any]) -> None:
    put(tools.store, tools.config.data_dir, *segments)


def table(tools: Tools, suffix: str = "") -> pa.Table:
    return tools.lake.load(name(tools.config, suffix)).scan().to_arrow().sort_by(OFFSET)


def marked(tools: Tools) -> dict[int, bool]:
    found = table(tools, "__dead_letter")
    return {row[OFFSET]: row["replayed_at"] is not None for row in found.to_pylist()}


def test_a_letter_that_can_be_read_now_becomes_a_row_under_its_old_offset(tools: Tools) -> None:
    fill(tools, [{"a": 1}, BAD, {"a": 3}, HOPELESS])
    move_all(tools, TOPIC)
    before = TableState.of(tools.lake.load(name(tools.config)))
    done = replay(tools.config, TOPIC)
    assert (done.rows, done.found, done.waiting) == (0, 0, [])
    assert list(done.stuck) == [Place(0, 1), Place(0, 3)]
    assert done.stuck[Place(0, 1)].startswith("value: ")
    done = replay(mended(tools.config), TOPIC)
    assert (done.rows, list(done.stuck)) == (1, [Place(0, 3)])
    assert table(tools).select([OFFSET, "_kafka_offset", "a", "value"]).to_pylist() == [
        {OFFSET: 0, "_kafka_offset": 1000, "a": 1, "value": None},
        {OFFSET: 1, "_kafka_offset": 1002, "a": None, "value": BAD.decode()},
        {OFFSET: 2, "_kafka_offset": 1004, "a": 3, "value": None},
    ]
    after = TableState.of(tools.lake.load(name(tools.config)))
    assert (after.offsets, after.epochs) == (before.offsets, before.epochs)
    assert marked(tools) == {1: True, 3: False}
    again = replay(mended(tools.config), TOPIC)
    assert (again.rows, again.found) == (0, 1)
    fill(tools, [{"a": 5}, BAD])
    move_all(tools, TOPIC)
    assert table(tools)[OFFSET].to_pylist() == [0, 1, 2, 4]
    assert marked(tools) == {1: True, 3: False, 5: False}
    union = TopicRows(tools.config, TOPIC, lake=tools.lake)
    assert sorted(o for batch in union.read(0) for o in batch.column(OFFSET).to_pylist()) == [0, 1, 2, 4]


def test_a_letter_that_clashes_does_not_keep_others_from_new_columns(tmp_path: Path) -> None:
    fine, strict = (
        local_config(tmp_path, kafka={"format": {"value": "json", "key": key}}) for key in ("raw", "json")
    )
    with tools_of(fine) as tools:
        for partition in range(2):
            put(tools.store, fine.data_dir, [{"x": 1}], partition=partition)
        move_all(tools, TOPIC)
    with tools_of(strict) as tools:
        put(tools.store, fine.data_dir, [{"p": 1}, {"q": 1}], partition=0)
        put(tools.store, fine.data_dir, [{"p": "x"}, {"r": 5}, {"P": 1}], partition=1)
        move_all(tools, TOPIC)
        assert table(tools).num_rows == 2, "no key is JSON"
        done = replay(fine, TOPIC)
        assert (done.rows, sorted(done.stuck)) == (3, [Place(1, 1), Place(1, 3)])
        assert "should be int64" in done.stuck[Place(1, 1)]
        found = [tuple(row.values()) for row in table(tools).select(["p", "q", "r"]).to_pylist()]
        assert [row for row in found if any(row)] == [(1, None, None), (None, 1, None), (None, None, 5)]


def test_large_letters_are_replayed_some_at_a_time(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "TOGETHER_BYTES", 2500)
    fill(tools, [b"x" * 1000] * 5)
    move_all(tools, TOPIC)
    before = len(tools.lake.load(name(tools.config)).snapshots())
    assert replay(mended(tools.config), TOPIC).rows == 5
    assert len(tools.lake.load(name(tools.config)).snapshots()) - before == 3
    assert all(marked(tools).values())


def test_letters_are_chosen(tools: Tools) -> None:
    fill(tools, [BAD, BAD, BAD])
    move_all(tools, TOPIC)
    one = Replay(mended(tools.config), tools.lake, tools.store, TOPIC)
    assert one.run(letters.at(0, 1)).rows == 1
    assert marked(tools) == {0: False, 1: True, 2: False}


def test_a_topic_without_letters_says_so(tools: Tools) -> None:
    fill(tools, [{"a": 1}])
    move_all(tools, TOPIC)
    with pytest.raises(TableNotFound, match="has no dead-letter table"):
        replay(tools.config, TOPIC)


FAILPOINTS = ["evolve.committed", "replay.written", "replay.unmarked", "letters.written", "letters.marked"]


def test_killed_somewhere(tools: Tools, seed: int) -> None:
    check_killed(tools, random.Random(seed).choice(FAILPOINTS))


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_killed_while_replaying(tools: Tools, failpoint: str) -> None:
    check_killed(tools, failpoint)


def check_killed(tools: Tools, failpoint: str) -> None:
    fill(tools, [{"a": 1}, BAD, BAD, HOPELESS])
    move_all(tools, TOPIC)
    replay_until(failpoint, mended(tools.config), TOPIC)
    done = replay(mended(tools.config), TOPIC)
    assert done.rows + done.found == 2
    assert table(tools)[OFFSET].to_pylist() == [0, 1, 2]
    assert marked(tools) == {1: True, 2: True, 3: False}


def test_two_at_a_time_with_a_mover_between_them(tools: Tools) -> None:
    fill(tools, *([BAD, {"a": number}] for number in range(20)))
    move_all(tools, TOPIC)
    fill(tools, *([BAD, {"a": number}] for number in range(5)))

    def move() -> None:
        with tools_of(tools.config, 1) as other:
            move_all(other, TOPIC, batch_rows=2)

    with ThreadPoolExecutor(3) as pool:
        replays = [pool.submit(replay, mended(tools.config), TOPIC) for _ in range(2)]
        pool.submit(move).result()
        assert sum(each.result().rows for each in replays) >= 20
    expected = {offset for offset in range(50) if offset % 2 or offset < 40}
    found = found_offsets(tools.lake, name(tools.config))
    assert {(0, offset) for offset in expected} <= set(found)
    assert set(found.values()) == {1}
    replay(mended(tools.config), TOPIC)
    expect_once(found_offsets(tools.lake, name(tools.config)), {0: 50})
    assert all(marked(tools).values())


def test_letters_above_the_offset_of_the_base_table_wait_for_it(tools: Tools) -> None:
    """The log would be read there as well, so the row would be seen twice."""
    fill(tools, [{"a": 1}, BAD])
    move_until("flush.dead-letters-committed", tools.config, TOPIC)
    done = replay(mended(tools.config), TOPIC)
    assert (done.rows, done.waiting) == (0, [Place(0, 1)])
    move_all(tools, TOPIC)
    assert table(tools)[OFFSET].to_pylist() == [0]
    assert replay(mended(tools.config), TOPIC).rows == 1


def roll_back(tools: Tools, snapshots: int) -> None:
    base = tools.lake.load(name(tools.config))
    earlier = base.metadata.snapshots[-1 - snapshots].snapshot_id
    base.manage_snapshots().rollback_to_snapshot(earlier).commit()


@pytest.mark.parametrize("snapshots", [1, 2, 3])
def test_rolled_back_and_moved_again(tools: Tools, snapshots: int) -> None:
    """Taken back are the last batch, the replay before it, and the batch with the letter before that."""
    fill(tools, [{"a": 0}])
    move_all(tools, TOPIC)
    fill(tools, [BAD, {"a": 2}])
    move_all(tools, TOPIC)
    assert replay(mended(tools.config), TOPIC).rows == 1
    fill(tools, [{"a": 3}])
    move_all(tools, TOPIC)
    roll_back(tools, snapshots)
    with pytest.raises(TableRolledBack):
        replay(mended(tools.config), TOPIC)
    Topic(tools.config, tools.lake, tools.store, TOPIC).decide("replay")
    move_all(tools, TOPIC)
    kept = snapshots == 1
    assert table(tools)[OFFSET].to_pylist() == ([0, 1, 2, 3] if kept else [0, 2, 3])
    done = replay(mended(tools.config), TOPIC)
    assert (done.rows, done.found) == ((0, 1) if kept else (1, 0))
    assert table(tools)[OFFSET].to_pylist() == [0, 1, 2, 3]


def test_what_retention_took_is_not_brought_back(tools: Tools) -> None:
    fill(tools, [BAD, {"a": 1}])
    move_all(tools, TOPIC)
    assert replay(mended(tools.config), TOPIC).rows == 1
    base = tools.lake.load(name(tools.config))
    base.delete("_offset == 0")
    base = tools.lake.load(name(tools.config))
    base.transaction().set_properties({"frazil.complete-from.0": "1"}).commit_transaction()
    done = replay(mended(tools.config), TOPIC)
    assert (done.rows, done.found) == (0, 0)
    assert table(tools)[OFFSET].to_pylist() == [1]


def test_compaction_between(tools: Tools) -> None:
    for number in range(3):
        fill(tools, [BAD, {"a": number}])
        move_all(tools, TOPIC)
    replay(mended(tools.config), TOPIC)
    compact(tools.lake, name(tools.config), count=3)
    compact(tools.lake, name(tools.config, "__dead_letter"), count=2)
    again = replay(mended(tools.config), TOPIC)
    assert (again.rows, again.found) == (0, 3)
    expect_once(found_offsets(tools.lake, name(tools.config)), {0: 6})
    assert all(marked(tools).values())


def test_on_a_rest_catalog(tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str) -> None:
    config = nessie_config(tmp_path, nessie, s3_server, namespace, kafka=STRICT)
    with tools_of(config) as tools:
        fill(tools, [BAD, {"a": 1}])
        move_all(tools, TOPIC)
        assert replay(mended(config), TOPIC).rows == 1
        assert replay(mended(config), TOPIC).found == 1
        assert (table(tools)[OFFSET].to_pylist(), marked(tools)) == ([0, 1], {0: True})
