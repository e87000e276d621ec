"""Requests that are too large for one append are stored in several, once, however often they are sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import FrazilError, LogFull
from frazil.log.writer.group import Ack, BatchAppend
from frazil.log.writer.writer import PartitionWriter
from tests.doors.telemetry.support import Served, logs_request, rows, run, settings

SENT = [f"{number} {'x' * 1000}" for number in range(4000)]
BODY = logs_request(*SENT).SerializeToString()


def _fails_after(appends: int, patch: pytest.MonkeyPatch) -> None:
    """Makes the log full after so many appends."""
    append = PartitionWriter.append_many
    left = appends

    async def limited(
        self: PartitionWriter, batch: pa.RecordBatch, parts: list[BatchAppend]
    ) -> list[Ack | FrazilError]:
        nonlocal left
        if not left:
            raise LogFull("no room")
        left -= 1
        return await append(self, batch, parts)

    patch.setattr(PartitionWriter, "append_many", limited)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 2), (2, 1), (1, 64), (2, 3)], ids=str)
@pytest.mark.parametrize("appends", [0, 1, 2])
def test_the_rest_comes_again_whatever_the_pieces_are(first: int, second: int, appends: int, tmp_path: Path) -> None:
    """`first` and `second` are sizes of appends in MiB; the request has about five."""

    async def interrupted(served: Served) -> None:
        with pytest.MonkeyPatch.context() as patch:
            _fails_after(appends, patch)
            assert (await served.post("/v1/logs", BODY)).status_code == 429
        assert 0 <= served.stored() < len(SENT)

    run(settings(tmp_path, log={"max_append_mb": first}), interrupted)
    config = settings(tmp_path, log={"max_append_mb": second})

    async def again(served: Served) -> None:
        for _ in range(2):
            assert (await served.post("/v1/logs", BODY)).status_code == 200
            assert served.stored() == len(SENT)
        assert sorted((await asyncio.to_thread(rows, config))["body"].to_pylist()) == sorted(SENT)

    run(config, again)


def test_the_same_large_request_at_once(tmp_path: Path) -> None:
    config = settings(tmp_path, log={"max_append_mb": 1})

    async def scenario(served: Served) -> None:
        answers = await asyncio.gather(*(served.post("/v1/logs", BODY) for _ in range(4)))
        assert {answer.status_code for answer in answers} == {200}
        assert sorted((await asyncio.to_thread(rows, config))["body"].to_pylist()) == sorted(SENT)

    run(config, scenario)
