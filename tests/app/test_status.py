from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from frazil.app.parts.log import LogCollector
from frazil.app.status import status_of
from frazil.config.model import Config
from frazil.log.log import Log
from frazil.ops.health import HEALTHY, Health, HealthReport
from frazil.ops.metrics import merge_families
from tests.log.support import SCHEMA, TOPIC, rows

PARTITION = ("topic", "partition")
TABLE = ("topic", "table")


def numbers(
    registry: CollectorRegistry, name: str, labels: tuple[str, ...], *values: tuple[str | float, ...]
) -> None:
    """Registers a gauge. The last item of each row of `values` is the value."""
    kind = Counter if name.endswith("_total") else Gauge
    metric = kind(name, "For a test.", labels, registry=registry)
    for *of, value in values:
        metric.labels(*of).inc(float(value))


def status(registry: CollectorRegistry, **components: Health) -> dict[str, Any]:
    report = HealthReport(components or {"log": HEALTHY}, 1.0)
    return status_of(report, merge_families(registry.collect()), lambda topic: f"shop.{topic}")


def test_a_topic_in_numbers() -> None:
    registry = CollectorRegistry()
    numbers(registry, "frazil_log_next_offset", PARTITION, ("orders", "0", 120), ("orders", "1", 80))
    numbers(registry, "frazil_log_sealed_offset", PARTITION, ("orders", "0", 100), ("orders", "1", 80))
    numbers(registry, "frazil_log_tail_records", PARTITION, ("orders", "0", 20), ("orders", "1", 0))
    numbers(registry, "frazil_log_tail_bytes", PARTITION, ("orders", "0", 512), ("orders", "1", 0))
    numbers(registry, "frazil_log_oldest_unsealed_seconds", PARTITION, ("orders", "0", 2.5), ("orders", "1", 0))
    numbers(registry, "frazil_messages_total", PARTITION, ("orders", "0", 20), ("orders", "1", 5))
    numbers(registry, "frazil_kafka_consumer_lag", PARTITION, ("orders", "0", 7), ("orders", "1", 1))
    committed = [
        ("orders", "shop.orders", "0", 90),
        ("orders", "shop.orders", "1", 80),
        ("orders", "shop.big", "0", 9),
    ]
    numbers(registry, "frazil_pipeline_committed_offset", (*TABLE, "partition"), *committed)
    numbers(registry, "frazil_last_commit_timestamp_seconds", TABLE, ("orders", "shop.orders", 1700.5))
    numbers(registry, "frazil_rows_flushed_total", TABLE, ("orders", "shop.orders", 170), ("orders", "shop.big", 3))
    numbers(registry, "frazil_pipeline_dead_letters_total", ("topic",), ("orders", 2))
    numbers(registry, "frazil_freshness_seconds", ("topic",), ("orders", 4.5))

    (topic,) = status(registry)["topics"]
    assert topic["partitions"][0] == {
        "partition": 0,
        "log_end": 120,
        "sealed_end": 100,
        "unsealed_records": 20,
        "unsealed_bytes": 512,
        "unsealed_seconds": 2.5,
        "committed_offset": 90,
        "behind": None,
        "kafka_lag": 7,
    }
    del topic["partitions"]
    assert topic == {
        "topic": "orders",
        "messages": 25,
        "records": None,
        "hot_rows": None,
        "hot_bytes": None,
        "freshness_seconds": 4.5,
        "dead_letters": 2,
        "log_end": 200,
        "committed_offset": 170,
        "behind": None,
        "kafka_lag": 8,
        "unsealed_records": 20,
        "unsealed_bytes": 512,
        "unsealed_seconds": 2.5,
        "last_commit": 1700.5,
        "problems": {},
        "tables": [
            {"table": "shop.big", "rows": 3, "commits": None, "last_commit": None},
            {"table": "shop.orders", "rows": 170, "commits": None, "last_commit": 1700.5},
        ],
    }


def test_what_another_process_appends_is_known_from_the_pipeline() -> None:
    registry = CollectorRegistry()
    labels = (*TABLE, "partition")
    numbers(registry, "frazil_pipeline_committed_offset", labels, ("loaded", "shop.loaded", "0", 90))
    numbers(registry, "frazil_pipeline_lag_records", labels, ("loaded", "shop.loaded", "0", 10))
    (topic,) = status(registry)["topics"]
    assert (topic["log_end"], topic["committed_offset"], topic["behind"]) == (100, 90, 10)


def test_the_log_of_this_process(tmp_path: Path) -> None:
    """The numbers of the log come from a collector, not from gauges."""
    with Log(Config(data_dir=tmp_path)) as log:
        log.writer(TOPIC, SCHEMA).append(rows(0, 7))
        registry = CollectorRegistry()
        registry.register(LogCollector(log))
        (topic,) = status(registry)["topics"]
    assert (topic["log_end"], topic["unsealed_records"], topic["records"]) == (7, 7, 7)


def test_each_topic_has_its_own_problems() -> None:
    registry = CollectorRegistry()
    numbers(registry, "frazil_log_next_offset", PARTITION, ("a", "0", 1), ("b", "0", 1), ("c", "0", 1))
    found = status(
        registry,
        iceberg=Health.of({"shop.a": "rolled back"}),
        kafka=Health.of({"a": "deleted"}),
        log=Health.of({"b/0": "the store is away"}),
    )
    assert found["status"] == "degraded"
    assert {topic["topic"]: topic["problems"] for topic in found["topics"]} == {
        "a": {"a": "deleted", "shop.a": "rolled back"},
        "b": {"b/0": "the store is away"},
        "c": {},
    }
