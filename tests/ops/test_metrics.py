from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector

from frazil.errors import (
    CasConflict,
    CheckpointFailed,
    ChecksumMismatch,
    DependencyUnavailable,
    DiskFull,
    FrazilError,
    KafkaTimeout,
    LogFull,
    SparkFailed,
    StorageUnavailable,
    TransactionLogDamaged,
    WriteFailed,
)
from frazil.ops.metrics import ErrorCounter, create_registry, render

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Child(Collector):
    """The metrics of another process, as text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def collect(self) -> list[Metric]:
        return list(parse_text(self._text))


def samples(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in parse_text(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}"
            assert key not in found, "said twice"
            found[key] = sample.value
    return found


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaTimeout("x"), "kafka"),
        (LogFull("x"), "buffer"),
        (CasConflict("x"), "iceberg"),
        (StorageUnavailable("x"), "storage"),
        (DiskFull("x"), "storage"),
        (WriteFailed("x"), "log"),
        (ChecksumMismatch("a damaged segment"), "log"),
        (CheckpointFailed("x"), "txlog"),
        (TransactionLogDamaged("x"), "txlog"),
        (SparkFailed("x"), "spark"),
        (DependencyUnavailable("x", CasConflict("y")), "iceberg"),
        (FrazilError("x"), "other"),
        (ValueError("x"), "other"),
    ],
)
def test_errors_are_counted_by_kind(error: Exception, kind: str) -> None:
    registry = CollectorRegistry()
    ErrorCounter(registry).count(error)
    found = samples(render(registry)[0].decode())
    assert found.pop(f"frazil_errors_total{{type={kind}}}") == 1.0
    assert set(found.values()) == {0.0}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 2)), max_size=20))
def test_what_several_count_under_one_name_is_added_up(counted: list[tuple[str, int, int]]) -> None:
    """Two parts of this process and a child, of which only the text is known, count under one name."""
    here, child = create_registry(), CollectorRegistry()
    counters = [
        Counter("frazil_things", "Things.", ("type",), registry=None),
        Counter("frazil_things", "Things.", ("type",), registry=None),
        Counter("frazil_things", "Things.", ("type",), registry=child),
    ]
    seconds = [
        Histogram("frazil_seconds", "Time.", buckets=(1, 5), registry=here),
        Histogram("frazil_seconds", "Time.", buckets=(1, 5), registry=child),
    ]
    for kind, amount, where in counted:
        counters[where].labels(kind).inc(amount)
        seconds[where % 2].observe(amount)
    for counter in counters[:2]:
        here.register(Part(counter))
    here.register(Child(render(child)[0].decode()))

    text = render(here)[0].decode()
    found = samples(text)
    for kind in "abc":
        total = sum(amount for each, amount, _ in counted if each == kind)
        assert found.get(f"frazil_things_total{{type={kind}}}", 0.0) == total
    assert found["frazil_seconds_count{}"] == len(counted)
    assert found["frazil_seconds_sum{}"] == sum(amount for _, amount, _ in counted)
    assert found["frazil_seconds_bucket{le=5.0}"] == sum(amount <= 5 for _, amount, _ in counted)
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    openmetrics = render(here, OPENMETRICS)[0].decode()
    parsed = parse_openmetrics(openmetrics)  # type: ignore[no-untyped-call]
    assert {family.name for family in parsed} >= {"frazil_things", "frazil_seconds"}


class Part(Collector):
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def collect(self) -> list[Metric]:
        return list(self._counter.collect())
