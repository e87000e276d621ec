"""Tests the parent of the pipeline: what it reports of its child, and how it handles a child that dies."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from frazil.app.parts.pipeline import PipelinePart
from frazil.config.model import Config
from frazil.ops.health import HealthReport
from tests.query.support import World, rows

NOBODY = "http://127.0.0.1:9/"
"""No server listens there."""


def config(folder: Path, **lake: Any) -> Config:
    return Config.model_validate({"data_dir": folder, "lake": lake})


async def until(part: PipelinePart, wanted: str) -> HealthReport:
    async with asyncio.timeout(60):
        while wanted not in HealthReport(part.health(), 0.0).reason:
            await asyncio.sleep(0.05)
    return HealthReport(part.health(), 0.0)


async def health_that_mentions(part: PipelinePart, wanted: str) -> HealthReport:
    await part.start()
    try:
        return await until(part, wanted)
    finally:
        await part.stop()


def test_a_catalog_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    part = PipelinePart(config(tmp_path, properties={"type": "rest", "uri": NOBODY}), registry)
    health = asyncio.run(health_that_mentions(part, "127.0.0.1:9"))
    assert health.status == "unhealthy"
    assert "Check that the catalog runs" in health.reason
    assert b'frazil_breaker_failures_total{dependency="catalog"}' in generate_latest(registry)


def test_a_child_that_ends_is_told_of_and_started_again(tmp_path: Path) -> None:
    async def run() -> None:
        part = PipelinePart(config(tmp_path, properties={"type": "rest", "uri": NOBODY}), CollectorRegistry())
        await part.start()
        try:
            await until(part, "127.0.0.1:9")
            assert part.child_pid is not None
            first = part.child_pid
            os.kill(first, signal.SIGKILL)
            health = await until(part, "ended by signal 9")
            assert health.status == "unhealthy"
            health = await until(part, "127.0.0.1:9")
            assert part.child_pid != first
        finally:
            await part.stop()

    asyncio.run(run())


def test_settings_that_cannot_work_are_told(tmp_path: Path) -> None:
    part = PipelinePart(config(tmp_path, properties={"type": "rest"}), CollectorRegistry())
    health = asyncio.run(health_that_mentions(part, "needs its address"))
    assert health.status == "unhealthy"


def test_no_table_is_made_in_a_catalog_that_was_lost(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.fill("orders", rows(0, 10), moved=10, sealed=10)
        for path in world.config.data_dir.glob("catalog.db*"):
            path.unlink()
        health = asyncio.run(
            health_that_mentions(PipelinePart(world.config, CollectorRegistry()), "frazil maintain register")
        )
    assert health.components["catalog"].status == "unhealthy"
    assert "is empty and does not know tables" in health.reason
