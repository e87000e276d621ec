"""The door on a disk of a few megabytes: it fills up, somebody makes room, and it fills up again.

`unshare --user --map-root-user --mount python -m tests.doors.otlp.full_disk FOLDER`; the disk is a tmpfs that only
this process sees.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tests.doors.otlp.support import LOGS, STATUS
from tests.doors.telemetry.support import Served, logs_request, rows, run, settings

ENOUGH = 100
"""More requests than such a disk has room for."""


class Client:
    def __init__(self, served: Served) -> None:
        self._served = served
        self._sent = 0
        self.acknowledged: list[str] = []

    async def fill(self) -> None:
        """Sends until a request is refused, whose answer must say over both protocols that the disk is the reason."""
        for _ in range(ENOUGH):
            text, body = self._next()
            answer = await self._served.post("/v1/logs", body)
            if answer.status_code != 200:
                assert answer.status_code == 503, answer.text
                assert "no room on the disk" in Status.FromString(answer.content).message
                assert int(answer.headers["retry-after"]) >= 1
                await self._refused_by_grpc()
                return
            self.acknowledged.append(text)
        raise AssertionError("the disk is never full")

    def _next(self) -> tuple[str, bytes]:
        self._sent += 1
        text = f"{self._sent} {'x' * 200_000}"
        return text, logs_request(text, time=self._sent).SerializeToString()

    async def _refused_by_grpc(self) -> None:
        _, body = self._next()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._served.door.grpc_port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(LOGS)(body)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        status = Status.FromString(dict(caught.value.trailing_metadata() or ())[STATUS])
        assert status.details[0].Is(RetryInfo.DESCRIPTOR)

    async def check(self) -> None:
        found = (await asyncio.to_thread(rows, self._served.config))["body"].to_pylist()
        assert sorted(found) == sorted(self.acknowledged)


def main(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    log = {"max_file_size_mb": 1, "seal": {"interval_seconds": 3600}}
    # Only what the log needs is on that disk.
    lake = {"properties": {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": str(folder / "warehouse")}}
    config = settings(disk, store={"url": str(folder / "store")}, lake=lake, log=log)

    async def scenario(served: Served) -> None:
        client = Client(served)
        await client.fill()
        await client.check()
        ballast.unlink()
        before = len(client.acknowledged)
        await client.fill()
        assert len(client.acknowledged) > before, "it goes on when somebody makes room"
        await client.check()
        (writer,) = served.log.writers
        await asyncio.to_thread(writer.seal_all)
        before = len(client.acknowledged)
        await client.fill()
        assert len(client.acknowledged) > before, "and when sealing makes room"
        await client.check()

    run(config, scenario)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
