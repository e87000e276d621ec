"""Computes what `frazil status` shows from health and metrics: how each topic is doing.

All numbers are those of this process and its pipeline. A number that they do not know is None.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from frazil.config.model import Config
from frazil.ops.health import HealthRegistry, HealthReport
from frazil.ops.metrics import merge_families
from frazil.web.ports.contributions import Endpoint

Data = dict[str, Any]

_PARTITION = {
    "log_end": "frazil_log_next_offset",
    "sealed_end": "frazil_log_sealed_offset",
    "unsealed_records": "frazil_log_tail_records",
    "unsealed_bytes": "frazil_log_tail_bytes",
    "unsealed_seconds": "frazil_log_oldest_unsealed_seconds",
    "committed_offset": "frazil_pipeline_committed_offset",
    "behind": "frazil_pipeline_lag_records",
    "kafka_lag": "frazil_kafka_consumer_lag",
}
"""These metrics tell the numbers of a partition. Of the metrics of tables, that of the base table counts."""

_TOPIC = {
    "messages": "frazil_messages_total",
    "records": "frazil_log_records_total",
    "hot_rows": "frazil_buffer_record_count",
    "hot_bytes": "frazil_buffer_size_bytes",
    "freshness_seconds": "frazil_freshness_seconds",
    "dead_letters": "frazil_pipeline_dead_letters_total",
}
"""These metrics tell the numbers of a topic. They are added up where each partition has one."""

_TABLE = {
    "rows": "frazil_rows_flushed_total",
    "commits": "frazil_iceberg_commits_total",
    "last_commit": "frazil_last_commit_timestamp_seconds",
}
"""These metrics tell the numbers of a table. Rows and commits count from the start of the pipeline."""


def status_endpoint(config: Config, health: HealthRegistry, metrics: CollectorRegistry) -> Endpoint:
    async def status(request: Request) -> Response:
        return JSONResponse(status_of(health.report(), merge_families(metrics.collect()), config.base_table))

    return Endpoint("/status", status, "health and every topic in numbers, as JSON")


def status_of(report: HealthReport, families: Iterable[Metric], base_table: Callable[[str], str]) -> Data:
    """`base_table` returns the name of a topic's base table."""
    samples = _by_name(families)
    problems = {name: reason for each in report.components.values() for name, reason in each.details.items()}
    topics = sorted({sample.labels["topic"] for found in samples.values() for sample in found})
    return {
        **report.as_data(),
        "topics": [_topic(topic, base_table(topic), _of(samples, topic), problems) for topic in topics],
    }


_Samples = Mapping[str, list[Sample]]


def _by_name(families: Iterable[Metric]) -> _Samples:
    """Returns the samples that have a topic, by the name of their metric."""
    wanted = {*_PARTITION.values(), *_TOPIC.values(), *_TABLE.values()}
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for family in families:
        for sample in family.samples:
            if sample.name in wanted and "topic" in sample.labels:
                found[sample.name].append(sample)
    return found


def _of(samples: _Samples, topic: str) -> _Samples:
    return {name: [each for each in found if each.labels["topic"] == topic] for name, found in samples.items()}


def _topic(topic: str, base: str, samples: _Samples, problems: Mapping[str, str]) -> Data:
    tables = list(_tables(samples))
    partitions = [_partition(number, base, samples) for number in _numbers(samples)]
    mine = {
        topic,
        base,
        *(each["table"] for each in tables),
        *(f"{topic}/{each['partition']}" for each in partitions),
    }
    return {
        "topic": topic,
        **{key: _number(sum(found) if (found := _values(samples, name)) else None) for key, name in _TOPIC.items()},
        **{key: _total(partitions, key) for key in ("log_end", "committed_offset", "behind", "kafka_lag")},
        **{key: _total(partitions, key) for key in ("unsealed_records", "unsealed_bytes")},
        "unsealed_seconds": max(_known(partitions, "unsealed_seconds"), default=None),
        "last_commit": next((each["last_commit"] for each in tables if each["table"] == base), None),
        "problems": {name: problems[name] for name in sorted(mine & problems.keys())},
        "partitions": partitions,
        "tables": tables,
    }


def _numbers(samples: _Samples) -> list[int]:
    of_partitions = (each for name in _PARTITION.values() for each in samples.get(name, ()))
    return sorted({int(each.labels["partition"]) for each in of_partitions})


def _partition(number: int, base: str, samples: _Samples) -> Data:
    found = {
        key: _number(next(iter(_values(samples, name, partition=str(number), table=base)), None))
        for key, name in _PARTITION.items()
    }
    if found["sealed_end"] is None and found["committed_offset"] is not None and found["behind"] is not None:
        # Another process writes this partition, but the pipeline has seen how far it is sealed.
        found["sealed_end"] = found["log_end"] = found["committed_offset"] + found["behind"]
    return {"partition": number, **found}


def _tables(samples: _Samples) -> Iterator[Data]:
    names = {each.labels["table"] for found in samples.values() for each in found if "table" in each.labels}
    for table in sorted(names):
        of_table = {
            key: _number(next(iter(_values(samples, metric, table=table)), None)) for key, metric in _TABLE.items()
        }
        yield {"table": table, **of_table}


def _values(samples: _Samples, name: str, **labels: str) -> list[float]:
    """Returns the values of all samples whose labels are these, or that do not have these labels."""
    return [
        each.value
        for each in samples.get(name, ())
        if all(each.labels.get(label, value) == value for label, value in labels.items())
    ]


def _total(partitions: Iterable[Data], key: str) -> int | float | None:
    known = _known(partitions, key)
    return sum(known) if known else None


def _known(partitions: Iterable[Data], key: str) -> list[int | float]:
    return [each[key] for each in partitions if each[key] is not None]


def _number(value: float | None) -> int | float | None:
    """Returns counts as whole numbers. Our own collectors may give an integer already."""
    return int(value) if value is not None and float(value).is_integer() else value
