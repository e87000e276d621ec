"""Metadata about metric families is remembered, and applied to the samples that belong to them."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.formats.otlp import metrics
from frazil.formats.remote_write.families import Families
from frazil.formats.remote_write.messages import WriteRequest
from tests.formats.remote_write.support import TIME_MS, add, plain, rows_of

UNKNOWN, COUNTER, GAUGE, HISTOGRAM, GAUGE_HISTOGRAM, SUMMARY, INFO, STATE_SET = range(8)


def told(*families: tuple[str, int], description: str = "Says it.", unit: str = "") -> Any:
    request = WriteRequest()
    for name, kind in families:
        request.metadata.add(type=kind, metric_family_name=name, help=description, unit=unit)
    return request


def sample(name: str) -> Any:
    request = WriteRequest()
    add(request, (1.0, TIME_MS), name=name)
    return request


def described(families: Families, name: str, tenant: str = "t") -> tuple[Any, ...]:
    (row,) = plain(rows_of(sample(name), families=families, tenants=[tenant]))
    return tuple(row[column] for column in ("metric_type", "is_monotonic", "aggregation_temporality", "description"))


def knowing(*families: tuple[str, int]) -> Families:
    found = Families()
    assert rows_of(told(*families), families=found, tenants=["t"]).batch.num_rows == 0
    return found


@pytest.mark.parametrize(
    ("kind", "family", "name", "summed", "monotonic"),
    [
        (COUNTER, "a_total", "a_total", True, True),
        (COUNTER, "a", "a_total", True, True),
        (COUNTER, "a", "a", True, True),
        (COUNTER, "a", "a_created", False, None),
        (GAUGE, "a", "a", False, None),
        (UNKNOWN, "a", "a", False, None),
        (STATE_SET, "a", "a", False, None),
        (INFO, "a", "a_info", False, None),
        (HISTOGRAM, "a", "a_bucket", True, True),
        (HISTOGRAM, "a", "a_count", True, True),
        (HISTOGRAM, "a", "a_sum", True, False),
        (HISTOGRAM, "a_b", "a_b_bucket", True, True),
        (GAUGE_HISTOGRAM, "a", "a_bucket", False, None),
        (GAUGE_HISTOGRAM, "a", "a_gcount", False, None),
        (GAUGE_HISTOGRAM, "a", "a_gsum", False, None),
        (SUMMARY, "a", "a", False, None),
        (SUMMARY, "a", "a_count", True, True),
        (SUMMARY, "a", "a_sum", True, False),
        (99, "a", "a", False, None),
    ],
)
def test_kinds(kind: int, family: str, name: str, summed: bool, monotonic: bool | None) -> None:
    expected = ("sum", monotonic, 2, "Says it.") if summed else ("gauge", None, None, "Says it.")
    assert described(knowing((family, kind)), name) == expected
    (row,) = plain(rows_of(sample(name), families=knowing((family, kind)), tenants=["t"]))
    assert metrics.to_message(row).description == "Says it."


@pytest.mark.parametrize(
    ("kind", "family", "name"),
    [
        (COUNTER, "a", "b"),
        (COUNTER, "a", "a_sum"),
        (GAUGE, "a", "a_total"),
        (SUMMARY, "a", "a_bucket"),
        (HISTOGRAM, "a", "a_max"),
        (HISTOGRAM, "a", "_bucket"),
        (HISTOGRAM, "a_bucket", "a"),
        (GAUGE_HISTOGRAM, "a", "a_sum"),
    ],
)
def test_samples_of_other_families(kind: int, family: str, name: str) -> None:
    assert described(knowing((family, kind)), name) == ("gauge", None, None, None)


def test_what_is_told_in_the_same_request_counts_for_it() -> None:
    request = sample("a_total")
    request.MergeFrom(told(("a_total", COUNTER), unit="requests"))
    (row,) = plain(rows_of(request))
    assert (row["metric_type"], row["description"], row["unit"]) == ("sum", "Says it.", "requests")


def test_the_last_word_counts() -> None:
    families = knowing(("a", COUNTER), ("a", GAUGE))
    assert described(families, "a")[0] == "gauge"
    rows_of(told(("a", COUNTER), description="Other."), families=families, tenants=["t"])
    assert described(families, "a") == ("sum", True, 2, "Other.")


def test_native_histograms_are_described_too() -> None:
    request = WriteRequest()
    add(request, name="a").histograms.add(count_int=1, timestamp=TIME_MS)
    (row,) = plain(rows_of(request, families=knowing(("a", HISTOGRAM)), tenants=["t"]))
    assert (row["metric_type"], row["is_monotonic"], row["description"]) == (
        "exponential_histogram",
        None,
        "Says it.",
    )


def test_tenants_tell_for_themselves() -> None:
    families = Families()
    rows_of(told(("a", COUNTER)), told(("a", GAUGE)), families=families, tenants=["one", "two"])
    both = plain(rows_of(sample("a"), sample("a"), sample("a"), families=families, tenants=["two", "one", "three"]))
    assert [row["metric_type"] for row in both] == ["gauge", "sum", "gauge"]
    assert [row["description"] for row in both] == ["Says it.", "Says it.", None]


def test_what_was_told_longest_ago_is_forgotten_when_there_is_no_room() -> None:
    families = Families(tenant_bytes=5000)
    for number in range(20):
        rows_of(told((f"a{number}", COUNTER), ("often", COUNTER)), families=families, tenants=["t"])
    known = [number for number in range(20) if described(families, f"a{number}")[0] == "sum"]
    assert 2 < len(known) < 15
    assert known == list(range(20 - len(known), 20))
    assert described(families, "often")[0] == "sum"


def test_one_that_is_larger_than_all_the_room() -> None:
    families = Families(tenant_bytes=5000)
    rows_of(told(("a", COUNTER)), families=families, tenants=["t"])
    rows_of(told(("b", COUNTER), description="x" * 5000), families=families, tenants=["t"])
    rows_of(told(("c", COUNTER)), families=families, tenants=["t"])
    assert [described(families, name)[0] for name in "abc"] == ["gauge", "gauge", "sum"]


def test_tenants_that_were_silent_longest_are_forgotten() -> None:
    families = Families(tenants=2)
    for tenant in ("one", "two", "one", "three"):
        rows_of(told(("a", COUNTER)), families=families, tenants=[tenant])
    assert [described(families, "a", tenant)[0] for tenant in ("one", "two", "three")] == ["sum", "gauge", "sum"]
