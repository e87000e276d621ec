"""More comes than can be taken: it is refused at once, what is acknowledged is there, and it goes on by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx

from tests.doors.telemetry.support import Served, logs_request, rows, run, settings
from tests.servers.proxy import Proxy
from tests.servers.seaweedfs import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY


def test_more_at_once_than_there_is_room_for(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"max_in_flight_mb": 1})

    async def scenario(served: Served) -> None:
        async def send(number: int) -> httpx.Response:
            body = logs_request(f"{number} {'x' * 100_000}").SerializeToString()
            return await served.post("/v1/logs", body)

        answers = await asyncio.gather(*(send(number) for number in range(200)))
        statuses = Counter(answer.status_code for answer in answers)
        assert set(statuses) == {200, 429}
        assert all(int(each.headers["retry-after"]) >= 1 for each in answers if each.status_code == 429)
        stored = {number for number, answer in enumerate(answers) if answer.status_code == 200}
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(int(body.split()[0]) for body in found) == sorted(stored)
        assert (await send(1000)).status_code == 200

    run(config, scenario)


def test_a_log_that_is_full_because_the_store_is_away(s3_proxy: Proxy, s3_prefix: str, tmp_path: Path) -> None:
    store = {
        "url": f"s3://{BUCKET}/{s3_prefix}",
        "options": {"endpoint": s3_proxy.endpoint, "region": "us-east-1"},
        "access_key_id": ACCESS_KEY_ID,
        "secret_access_key": SECRET_ACCESS_KEY,
        "timeout_seconds": 2,
    }
    log = {"max_tail_mb": 1, "append_timeout_seconds": 0.2, "seal": {"interval_seconds": 0.2}}
    config = settings(tmp_path, store=store, log=log)

    async def scenario(served: Served) -> None:
        async def send(number: int) -> int:
            body = logs_request(f"{number} {'x' * 200_000}").SerializeToString()
            return (await served.post("/v1/logs", body)).status_code

        assert await send(0) == 200
        s3_proxy.down()
        statuses = [await send(number) for number in range(1, 12)]
        assert statuses[0] == 200
        assert statuses[-1] == 429
        s3_proxy.up()
        while await send(100) != 200:
            await asyncio.sleep(0.2)
        acknowledged = [0, *(number for number, status in enumerate(statuses, 1) if status == 200), 100]
        found = (await asyncio.to_thread(rows, config))["body"].to_pylist()
        assert sorted(int(body.split()[0]) for body in found) == acknowledged

    run(config, scenario)
