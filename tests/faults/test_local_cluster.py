"""Tests that Spark with executors in processes of their own does the same as Spark in one process."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.tables.tables import find_table
from tests.faults.loader import TOPICS, Loader, check_everything, moved
from tests.faults.pipeline_fleet import LOCAL_CLUSTER, MOVED_SECONDS, Fleet, pipeline_config

pytestmark = pytest.mark.xdist_group("own-jvm")

LOUD = {"loud": {"sql": "SELECT id, upper(text) AS loud FROM batch", "backfill": True}}
MASTERS = ["local[*]", LOCAL_CLUSTER]
ROUNDS = 4


def config_of(folder: Path, master: str) -> Config:
    return pipeline_config(folder, master, topics={TOPICS[0]: {"derived": LOUD}})


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_an_executor_is_killed(tmp_path: Path, seed: int) -> None:
    """The topic has a derived table and dead letters too.

    Spark replaces the executor, and the batch is done again.
    """
    config = config_of(tmp_path, LOCAL_CLUSTER)
    with Loader(config, seed) as loader, Fleet(config, random.Random(seed)) as fleet:
        loader.fill(10)
        pipeline = fleet.start()
        pipeline.wait_for(lambda: fleet.kill(pipeline, "executor"), "begun", MOVED_SECONDS)
        pipeline.wait_for(lambda: moved(config, loader), "moved", MOVED_SECONDS)
        pipeline.wait_for(lambda: queried(config, loader), "queried", MOVED_SECONDS)
        pipeline.wait_for(lambda: pipeline.health.status == "healthy", "healthy")
        assert pipeline.stop() == 0
        check_everything(config, loader)
        check_query(config, loader)


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("master", MASTERS)
def test_killed_and_started_again(tmp_path: Path, seed: int, master: str) -> None:
    chance = random.Random(seed)
    config = config_of(tmp_path, master)
    with Loader(config, seed, pause=0.5) as loader, Fleet(config, chance) as fleet:
        loader.start()
        for number in range(ROUNDS):
            step = chance.choice(["task.files-written", "flush.written", "flush.committed", "commit.after-request"])
            # A failpoint in a task kills only the task's process, which Spark replaces. So the driver is killed in
            # any case.
            pipeline = fleet.start(f"{step}:{chance.randint(1, 6)}")
            for what in ("worker", "executor" if master == LOCAL_CLUSTER else "worker"):
                pipeline.wait_for(
                    lambda what=what, it=pipeline: fleet.kill(it, what) or it.process.poll() is not None,  # type: ignore[misc]
                    "begun",
                    MOVED_SECONDS,
                )
            if number == 1:
                loader.widen(TOPICS[0])
            fleet.kill(pipeline, "driver")
            fleet.bury(pipeline)
        loader.stop()
        last = fleet.start()
        last.wait_for(lambda: moved(config, loader), "moved everything", MOVED_SECONDS)
        last.wait_for(lambda: queried(config, loader), "queried everything", MOVED_SECONDS)
        assert last.stop() == 0
        check_everything(config, loader)
        check_query(config, loader)
        print(f"seed {seed}: {master}: {fleet.kills}, {loader.rows} rows")  # noqa: T201


def queried(config: Config, loader: Loader) -> bool:
    lake = Lake(config)
    try:
        table = find_table(lake, ("frazil", "loud"))
        return table is not None and TableState.of(table).offsets == loader.offsets(TOPICS[0])
    finally:
        lake.close()


def check_query(config: Config, loader: Loader) -> None:
    lake = Lake(config)
    try:
        found = lake.load(("frazil", "loud")).scan().to_arrow().sort_by("id").to_pylist()
    finally:
        lake.close()
    expected = [{"id": row["id"], "loud": row["text"].upper()} for row in loader.fitting(TOPICS[0])]
    assert found == sorted(expected, key=lambda row: int(row["id"]))
