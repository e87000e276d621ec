"""Tests pipelines with Spark that are killed under load, with a second pipeline at work and maintenance running."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from frazil.config.model import Config
from tests.faults.loader import TOPICS, Loader, check_everything, moved
from tests.faults.pipeline_fleet import MOVED_SECONDS, Fleet, pipeline_config, spark_workers
from tests.faults.steps import failpoints

pytestmark = pytest.mark.xdist_group("own-jvm")

KILLS = 30
LIFE_SECONDS = 25.0
"""The longest life of a pipeline. Spark alone takes several seconds to start."""


@pytest.mark.timeout(900)
def test_killed_twice(tmp_path: Path, seed: int) -> None:
    """First one of Spark's workers is killed, which Spark replaces by itself, then the driver at one of its steps."""
    chance = random.Random(seed)
    config = pipeline_config(tmp_path)
    with Loader(config, seed, pause=1.0) as loader, Fleet(config, chance) as fleet:
        loader.fill(12)
        loader.widen(TOPICS[0])
        step = chance.choice(
            ["flush.written", "flush.dead-letters-committed", "commit.after-request", "flush.committed"]
        )
        first = fleet.start(failpoint=f"{step}:{chance.randint(2, 4)}")
        first.wait_for(lambda: bool(spark_workers(first)), "begun", MOVED_SECONDS)
        fleet.kill(first, "worker")
        loader.start()
        fleet.bury(first)
        loader.stop()
        finish(config, loader, fleet)


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("count", [1, 2], ids=["alone", "two-at-once"])
def test_killed_many_times(tmp_path: Path, seed: int, count: int) -> None:
    chance = random.Random(seed)
    config = pipeline_config(tmp_path)
    steps = [name for name in failpoints() if not name.startswith("txlog")]
    with Loader(config, seed, pause=0.5) as loader, Fleet(config, chance) as fleet:
        loader.start()
        while sum(fleet.kills.values()) < KILLS:
            if len(fleet.running) < count:
                # If nobody passes the step, nobody is killed there. Then the life ends at random.
                at = f"{chance.choice(steps)}:{chance.randint(1, 4)}" if chance.random() < 0.4 else None
                fleet.start(at)
            pipeline = chance.choice(fleet.running)
            if chance.random() < 0.2:
                loader.widen(chance.choice(TOPICS))
            end = time.monotonic() + chance.uniform(0.0, LIFE_SECONDS)
            while time.monotonic() < end and pipeline.process.poll() is None:
                time.sleep(0.05)
            if pipeline.process.poll() is not None:
                fleet.kills["failpoint"] = fleet.kills.get("failpoint", 0) + 1
                fleet.bury(pipeline)
                continue
            what = chance.choices(["driver", "jvm", "worker"], [6, 2, 2])[0]
            if fleet.kill(pipeline, what) and what != "worker":
                fleet.bury(pipeline)
        loader.stop()
        finish(config, loader, fleet, tidied=True)
        print(f"seed {seed}: {fleet.kills}, {loader.rows} rows, {len(loader.unfit)} of them unfit")  # noqa: T201


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_paused_and_continued(tmp_path: Path, seed: int) -> None:
    """A pipeline that slept while another worked goes on as if nothing had happened."""
    chance = random.Random(seed)
    config = pipeline_config(tmp_path)
    with Loader(config, seed, pause=0.1) as loader, Fleet(config, chance) as fleet:
        loader.start()
        sleeper = fleet.start()
        sleeper.wait_for(lambda: "frazil_rows_flushed_total{" in sleeper.metrics, "moving")
        for _ in range(5):
            time.sleep(chance.uniform(0, 2))
            fleet.pause(sleeper)
            other = fleet.start()
            other.wait_for(lambda other=other: "frazil_rows_flushed_total{" in other.metrics, "moving")  # type: ignore[misc]
            loader.widen(chance.choice(TOPICS))
            time.sleep(chance.uniform(0, 6))
            if chance.random() < 0.5:
                fleet.resume(sleeper)
            time.sleep(chance.uniform(0, 3))
            fleet.kill(other, "driver")
            fleet.bury(other)
            fleet.resume(sleeper)
        loader.stop()
        sleeper.wait_for(lambda: moved(config, loader), "moved by the one that was paused", MOVED_SECONDS)
        sleeper.wait_for(lambda: sleeper.health.status == "healthy", "healthy again")
        assert sleeper.stop() == 0
        check_everything(config, loader)
        print(f"seed {seed}: {fleet.kills}, {loader.rows} rows")  # noqa: T201


def finish(config: Config, loader: Loader, fleet: Fleet, *, tidied: bool = False) -> None:
    """Lets one pipeline move what is left, beside any that still runs, and checks everything."""
    last = fleet.start()
    last.wait_for(lambda: moved(config, loader), "moved everything", MOVED_SECONDS)
    if tidied:
        loader.fill(4)
        last.wait_for(lambda: moved(config, loader), "moved what came last", MOVED_SECONDS)
        for done in ("compact", "expire"):
            ran = re.compile(rf'frazil_maintenance_runs_total{{op="{done}",outcome="done"')
            # Any running pipeline may have cleaned up. Then the others find nothing to do.
            last.wait_for(
                lambda ran=ran: any(ran.search(each.metrics) for each in fleet.running),  # type: ignore[misc]
                f"tidied up: {done}",
            )
    last.wait_for(lambda: last.health.status == "healthy", "healthy again")
    for pipeline in list(fleet.running):
        if pipeline.process.poll() is None:
            assert pipeline.stop() == 0, pipeline.said
    check_everything(config, loader)
