"""Tests topics of messages with the Spark pipeline, which moves them while topics come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from frazil.errors import TableNotFound
from frazil.log.log import Log
from frazil.topics.read.starts import Start
from frazil.topics.storage import TopicStorage
from tests.lake.support import local_config
from tests.pipeline.pipeline_process import PipelineProcess
from tests.pipeline.processes import QUICK, committed
from tests.topics.support import TOPIC, numbered, read_all

pytestmark = pytest.mark.xdist_group("own-jvm")


def test_a_topic_is_moved_deleted_and_moved_again(tmp_path: Path) -> None:
    config = local_config(tmp_path, pipeline=QUICK, log={"seal": {"interval_seconds": 0.2}})

    async def body() -> None:
        with Log(config) as log:
            topics = TopicStorage(log)
            await topics.create_topic(TOPIC, 2)
            for partition in range(2):
                await topics.store(TOPIC, numbered(0, 50), partition=partition)
            with PipelineProcess(config) as pipeline:

                async def wait_for(offsets: dict[int, int]) -> None:
                    await asyncio.to_thread(
                        pipeline.wait_for, lambda: committed(config, TOPIC) == offsets, f"moved to {offsets}"
                    )

                await wait_for({0: 50, 1: 50})
                assert await topics.get_committed_position(TOPIC) == {0: 50, 1: 50}
                deleted = await topics.delete_topic(TOPIC, drop_table=True)
                assert deleted.messages == 100
                with pytest.raises(TableNotFound):
                    topics._lake.load(("shop", "orders"))
                await topics.create_topic(TOPIC, 1)
                await topics.store(TOPIC, numbered(0, 7))
                await wait_for({0: 57, 1: 50})
                assert await read_all(await topics.cursor(TOPIC, 0, Start.at(50))) == list(range(7))
                await asyncio.to_thread(pipeline.wait_for, lambda: pipeline.health.status == "healthy", "healthy")
                assert await asyncio.to_thread(pipeline.stop) == 0

    asyncio.run(body())
