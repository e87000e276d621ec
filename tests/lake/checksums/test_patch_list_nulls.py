from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from frazil.scan.topic_rows import TopicRows
from tests.query.support import World

PAIR = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        ("lists", pa.list_(PAIR)),
        ("maps", pa.map_(pa.string(), PAIR)),
        ("deep", pa.list_(pa.struct([("inner", pa.list_(PAIR))]))),
        ("plain", pa.list_(pa.int64())),
    ]
)
ROWS = [
    {"lists": None, "maps": None, "deep": None, "plain": None},
    {"lists": [], "maps": [], "deep": [], "plain": []},
    {
        "lists": [{"x": 1, "y": None}, None],
        "maps": [("k", {"x": 2, "y": "z"}), ("n", None)],
        "deep": [{"inner": None}, None, {"inner": [{"x": 3, "y": "a"}]}, {"inner": []}],
        "plain": [1, None],
    },
    {"lists": None, "maps": None, "deep": [{"inner": None}], "plain": None},
]


def test_nothing_and_an_empty_list_are_told_apart(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.append("things", pa.RecordBatch.from_pylist(ROWS, SCHEMA))
        world.seal("things")
        before = _read(world)
        world.move("things")
        assert _read(world) == before == ROWS


def _read(world: World) -> list[object]:
    plan = TopicRows(world.config, "things").plan()
    return [row for part in plan.tasks for batch in part.read() for row in batch.select(SCHEMA.names).to_pylist()]
