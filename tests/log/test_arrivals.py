"""Tests that whoever waits for records is woken when they come, by a writer here or in another process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.log.arrivals import Arrivals
from frazil.log.log import Log
from tests.log.support import SCHEMA, rows

TOPIC = "orders"


@pytest.mark.parametrize("beside_the_writer", [True, False])
def test_waiting(tmp_path: Path, beside_the_writer: bool) -> None:
    async def scenario(log: Log) -> None:
        arrivals = Arrivals(TOPIC, tmp_path, (lambda: log) if beside_the_writer else None)
        writer = await asyncio.to_thread(log.writer, TOPIC, SCHEMA)
        assert not await arrivals.wait({}, 0.05)
        waiting = asyncio.create_task(arrivals.wait({0: 0}, 30))
        await asyncio.sleep(0.05)
        await writer.append_async(rows(0, 3))
        assert await waiting
        assert await arrivals.wait({0: 2}, 30)
        assert not await arrivals.wait({0: 3}, 0.05)

    with Log(Config.model_validate({"data_dir": tmp_path})) as log:
        asyncio.run(scenario(log))


def test_nobody_writes_here(tmp_path: Path) -> None:
    assert asyncio.run(Arrivals(TOPIC, tmp_path, None).wait({}, 0.01))
