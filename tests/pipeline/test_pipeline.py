"""Tests the pipeline as a process with Spark: it moves existing and new records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import APPLICATION, TASKS, summary_of
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from tests.faults.pipeline_fleet import command, spark_workers
from tests.lake.support import local_config
from tests.pipeline.pipeline_process import PipelineProcess
from tests.pipeline.processes import QUICK, SCHEMA, append, committed
from tests.pipeline.support import expect_once, found_offsets

pytestmark = pytest.mark.xdist_group("own-jvm")


def test_topics_are_moved_side_by_side(tmp_path: Path) -> None:
    config = local_config(tmp_path, pipeline=QUICK)
    with Log(config) as log:
        append(log, "orders", 500)
        append(log, "orders", 300, partition=1)
        append(log, "broken", 10)
        lake = Lake(config)
        foreign(lake, base_identifier(config, "broken"))
        with PipelineProcess(config) as pipeline:
            pipeline.wait_for(lambda: committed(config, "orders") == {0: 500, 1: 300}, "moved what was there")
            append(log, "orders", 7)
            append(log, "later", 9)
            pipeline.wait_for(lambda: committed(config, "orders") == {0: 507, 1: 300}, "moved what came")
            pipeline.wait_for(lambda: committed(config, "later") == {0: 9}, "found the new topic")
            pipeline.wait_for(lambda: pipeline.health.status == "degraded", "told of the broken topic")
            assert "broken was not made by Frazil" in pipeline.health.reason
            moved = 'frazil_rows_flushed_total{table="frazil.orders",topic="orders"} 807'
            pipeline.wait_for(lambda: moved in pipeline.metrics, "counted the rows")
            for name in ("flushes_total", "iceberg_commits_total", "flush_duration_seconds_count"):
                found = re.search(
                    rf'^frazil_{name}{{table="frazil.orders",topic="orders"}} (\S+)$', pipeline.metrics, re.M
                )
                assert found
                assert float(found[1]) >= 2
            assert pipeline.stop() == 0
        expect_once(found_offsets(lake, base_identifier(config, "orders")), {0: 507, 1: 300})
        snapshot = lake.load(base_identifier(config, "orders")).current_snapshot()
        assert snapshot is not None
        assert summary_of(snapshot)[APPLICATION].startswith("local-")
        assert summary_of(snapshot)[TASKS]


def foreign(lake: Lake, identifier: tuple[str, ...]) -> None:
    lake.ensure_namespace(identifier[:-1])
    lake.catalog.create_table(identifier, SCHEMA)


def test_topics_with_nothing_to_move_cost_nothing(tmp_path: Path) -> None:
    config = local_config(tmp_path, pipeline={**QUICK, "idle_seconds": 3})
    topics = [f"topic{number}" for number in range(3)]
    with Log(config) as log:
        for topic in topics:
            append(log, topic, 10)
        with PipelineProcess(config) as pipeline:
            pipeline.wait_for(lambda: all(committed(config, topic) == {0: 10} for topic in topics), "moved all")
            pipeline.wait_for(lambda: not runners(pipeline), "ended all queries")
            append(log, topics[2], 1)
            pipeline.wait_for(lambda: committed(config, topics[2]) == {0: 11}, "moved what came")
            assert len(runners(pipeline)) == 1, "only what moves something has processes of its own"
            assert pipeline.health.status == "healthy"
            assert pipeline.stop() == 0


def runners(pipeline: PipelineProcess) -> list[int]:
    """Returns the processes of streams among all that a pipeline has started."""
    return [each for each in spark_workers(pipeline) if "streaming_source_runner" in command(each)]
