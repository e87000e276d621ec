"""A logging handler for Loki sends records, and everything arrives."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from loki_logger_handler.loki_logger_handler import LokiLoggerHandler

from tests.doors.loki.support import PATH
from tests.doors.telemetry.support import Served, rows, run, settings

LINES = 500


@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_lines_arrive(compressed: bool, tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        handler = LokiLoggerHandler(
            url=served.url("loki") + PATH,
            labels={"app": "shop", "env": 'a "test"'},
            label_keys={"level"},
            additional_headers={"X-Scope-OrgID": "team"},
            timeout=0.1,
            compressed=compressed,
            enable_structured_loki_metadata=True,
            loki_metadata={"version": "1.2"},
            loki_metadata_keys=["trace_id"],
        )
        logger = logging.Logger("orders")
        logger.addHandler(handler)
        for number in range(LINES):
            log = logger.warning if number % 2 else logger.info
            log("order %d \u2713", number, extra={"trace_id": f"{number + 1:032x}"})
        while served.stored() < LINES and not handler.error:
            await asyncio.sleep(0.05)
        assert not handler.error
        found = (await asyncio.to_thread(rows, config, tenant="team")).to_pylist()
        messages = [json.loads(row["body"])["message"] for row in found]
        assert sorted(messages) == sorted(f"order {number} \u2713" for number in range(LINES))
        row = found[messages.index("order 7 \u2713")]
        assert row["service_name"] == "shop"
        assert dict(row["resource_attributes"]) == {"app": "shop", "env": 'a "test"', "level": "WARNING"}
        assert (row["severity_number"], row["severity_text"]) == (13, "WARNING")
        assert dict(row["attributes"]) == {"trace_id": f"{8:032x}", "version": "1.2"}
        assert row["trace_id"] == (8).to_bytes(16)
        assert {row["severity_number"] for row in found} == {9, 13}

    run(config, scenario)
