"""Tests topics whose records are bytes with the real pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.tables.tables import find_table
from frazil.store import open_store
from tests.lake.kafka_records import TOPIC, put
from tests.lake.support import local_config
from tests.pipeline.pipeline_process import PipelineProcess
from tests.pipeline.processes import QUICK, committed

pytestmark = pytest.mark.xdist_group("own-jvm")


def test_decoded_in_tasks_and_by_queries(tmp_path: Path) -> None:
    derived = {
        "doubled": {"sql": "SELECT _offset, a * 2 AS a FROM batch WHERE NOT _kafka_tombstone", "backfill": True}
    }
    config = local_config(
        tmp_path, pipeline=QUICK, kafka={"format": {"value": "json"}}, topics={TOPIC: {"derived": derived}}
    )
    lake = Lake(config)
    store = open_store(config.store, config.data_dir)

    def offsets(name: str) -> dict[int, int]:
        table = find_table(lake, ("frazil", name))
        return dict(TableState.of(table).offsets) if table else {}

    put(store, config.data_dir, [{"a": 1}, None, b"no"])
    with PipelineProcess(config) as pipeline:
        pipeline.wait_for(lambda: committed(config, TOPIC) == {0: 3}, "moved what was there")
        put(store, config.data_dir, [{"a": 4, "new": "x"}], [{"a": 5, "other": [1]}])
        pipeline.wait_for(lambda: committed(config, TOPIC) == {0: 5}, "moved records with new fields")
        pipeline.wait_for(lambda: offsets("doubled") == {0: 5}, "filled the derived table")
        assert pipeline.stop() == 0
    found = lake.load(("frazil", TOPIC)).scan().to_arrow().sort_by("_offset")
    assert found.select(["_offset", "a", "new", "other"]).to_pylist() == [
        {"_offset": 0, "a": 1, "new": None, "other": None},
        {"_offset": 1, "a": None, "new": None, "other": None},
        {"_offset": 3, "a": 4, "new": "x", "other": None},
        {"_offset": 4, "a": 5, "new": None, "other": [1]},
    ]
    doubled = lake.load(("frazil", "doubled")).scan().to_arrow().sort_by("_offset")
    assert doubled.to_pydict() == {"_offset": [0, 3, 4], "a": [2, 8, 10]}
    letters = lake.load(("frazil", f"{TOPIC}__dead_letter")).scan().to_arrow()
    assert letters["value"].to_pylist() == [b"no"]
