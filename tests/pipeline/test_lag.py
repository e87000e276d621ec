"""Tests the metrics of how far a table is behind its log."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from frazil.pipeline.lag import INTERVAL_SECONDS, Lag
from tests.lake.support import local_config
from tests.log.support import TOPIC, Machine, rows, writer
from tests.pipeline.support import pipeline_context

TABLE = f"frazil.{TOPIC}"


def test_lag_and_freshness_follow_what_is_sealed_and_what_is_committed(tmp_path: Path) -> None:
    config = local_config(tmp_path)
    machine = Machine()
    with pipeline_context(config) as plain:
        context = replace(plain, world=machine.world)
        registry = CollectorRegistry()
        lag = Lag(context)
        registry.register(lag)

        def told() -> tuple[float | None, float | None]:
            where = {"topic": TOPIC, "table": TABLE, "partition": "0"}
            return (
                registry.get_sample_value("frazil_pipeline_lag_records", where),
                registry.get_sample_value("frazil_freshness_seconds", {"topic": TOPIC}),
            )

        with closing(writer(context.store, config.data_dir, machine)) as log:
            log.append(rows(0, 10))
            machine.clock.advance(7)
            log.seal_all()
            lag.measure()
            assert told() == (None, None), "nobody knows of the table yet"
            context.note_committed(TOPIC, TABLE, {})
            machine.clock.advance(INTERVAL_SECONDS)
            lag.measure()
            assert told() == (10, 17), "since the record was appended, not since it was sealed"
            log.append(rows(10, 5))
            log.seal_all()
            machine.clock.advance(INTERVAL_SECONDS)
            lag.measure()
            assert told() == (15, 27)
            context.note_committed(TOPIC, TABLE, {0: 10})
            assert told() == (5, 10), "what is committed counts at once"
            machine.clock.advance(1)
            assert told() == (5, 11)
            context.note_committed(TOPIC, TABLE, {0: 15})
            assert told() == (0, 0)
