from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.query.sql import pool
from frazil.query.sql.pool import WorkerPool
from frazil.query.sql.protocol import Question

# Queries run in processes of their own.
pytestmark = pytest.mark.server


def test_a_process_that_nobody_uses_ends_and_the_next_query_starts_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.3)

    async def body() -> None:
        processes = WorkerPool(Config(data_dir=tmp_path), lambda _: {})
        try:
            await processes.warm()
            for _ in range(2):
                while any(worker.running for worker in processes._all):
                    await asyncio.sleep(0.01)
                answer = await processes.ask(Question("SELECT 1 AS one", None, arrow=False))
                assert b'"one":1' in answer.replace(b" ", b"")
                assert any(worker.running for worker in processes._all)
        finally:
            await processes.close()

    asyncio.run(asyncio.wait_for(body(), 60))
