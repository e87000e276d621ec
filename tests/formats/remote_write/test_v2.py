"""Requests of remote write 2.0 become rows of a table."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import RequestError
from frazil.formats.otlp import metrics
from frazil.formats.remote_write.messages import RequestV2
from frazil.formats.remote_write.v2 import BEYOND, ODD
from tests.formats.remote_write import support as first
from tests.formats.remote_write.support import TIME_MS, plain, requests
from tests.formats.remote_write.v2_support import Request, rows_of, second


def filled(request: Any) -> Any:
    """Removes series that have neither samples nor histograms, which are errors in 2.0."""
    kept = type(request)()
    kept.timeseries.extend(each for each in request.timeseries if each.samples or each.histograms)
    return kept


@given(sent=st.lists(requests(exemplars=True, histograms=True).map(filled), max_size=3))
def test_rows_are_those_of_the_first_version(sent: list[Message]) -> None:
    expected = first.rows_of(*sent)
    found = rows_of(*map(second, sent))
    assert found.batch.schema == metrics.SCHEMA
    # The comparison treats NaN as equal to itself.
    assert repr(plain(found)) == repr(plain(expected))
    assert found.requests.tolist() == expected.requests.tolist()
    assert found.rejected == expected.rejected


def test_when_they_began_to_count() -> None:
    request = Request()
    series = request.add(name="requests_total")
    series.samples.add(value=1, timestamp=TIME_MS, start_timestamp=TIME_MS - 5)
    series.samples.add(value=2, timestamp=TIME_MS + 1)
    series.samples.add(value=3, timestamp=TIME_MS, start_timestamp=2**62)
    series = request.add(name="took_seconds")
    series.histograms.add(count_int=1, timestamp=TIME_MS, start_timestamp=-1, reset_hint=2)
    rows = rows_of(request.message)
    assert [row["start_timestamp"] for row in plain(rows)] == [(TIME_MS - 5) * 10**6, None, -(10**6)]
    assert rows.batch["counter_reset_hint"].to_pylist() == [None, None, "not_reset"]
    assert rows.rejected == {0: (1, "1 with a time that is not between the years 1678 and 2262")}


def test_what_is_told_of_metrics() -> None:
    request = Request()
    told = [
        *(("a_total", 1, "sum", True), ("a", 1, "sum", True), ("b", 2, "gauge", None), ("c_bucket", 3, "sum", True)),
        *(("c_sum", 3, "sum", False), ("c_created", 3, "gauge", None), ("d_bucket", 4, "gauge", None)),
        *(
            ("e_count", 5, "sum", True),
            ("e", 5, "gauge", None),
            ("f", 0, "gauge", None),
            ("g_total", 9, "gauge", None),
        ),
        ("g_total", -1, "gauge", None),
    ]
    for name, kind, *_ in told:
        metadata = request.add((1.0, TIME_MS), name=name).metadata
        metadata.type, metadata.help_ref, metadata.unit_ref = kind, request.ref(f"Help of {name}."), request.ref("s")
    request.add((1.0, TIME_MS), name="h_total")
    *found, last = plain(rows_of(request.message))
    assert [(row["metric_name"], row["metric_type"], row["is_monotonic"]) for row in found] == [
        (name, kind, monotonic) for name, _, kind, monotonic in told
    ]
    assert [row["description"] for row in found] == [f"Help of {name}." for name, *_ in told]
    assert {row["unit"] for row in found} == {"s"}
    assert (last["description"], last["unit"], last["metric_type"]) == (None, None, "gauge")


def test_labels_in_any_order_and_without_values() -> None:
    request = Request()
    request.add((1.0, TIME_MS), z="1", name="up", a="2", none="")
    (row,) = plain(rows_of(request.message))
    assert (row["metric_name"], dict(row["attributes"])) == ("up", {"z": "1", "a": "2"})


def test_wrong_references_are_rejected_and_the_others_stored() -> None:
    request = Request()
    request.add((1.0, TIME_MS), name="up")
    request.add((2.0, TIME_MS), (2.5, TIME_MS), name="up").labels_refs.append(1)
    request.add((3.0, TIME_MS), name="up").labels_refs.extend([1, 2**32 - 1])
    request.add((4.0, TIME_MS), name="up").metadata.help_ref = 99
    request.add(name="up")
    request.add(name="up").exemplars.add(value=1, timestamp=TIME_MS)
    series = request.add((5.0, TIME_MS), name="up")
    series.exemplars.add(value=6, timestamp=TIME_MS, labels_refs=[1])
    series.exemplars.add(value=7, timestamp=TIME_MS, labels_refs=[1, 99])
    series.exemplars.add(value=8, timestamp=TIME_MS, labels_refs=[1, 2])
    other = Request()
    other.add((9.0, TIME_MS), name="a", b="c", d="e")
    rows = rows_of(other.message, request.message, RequestV2())
    assert rows.batch["value_double"].to_pylist() == [9.0, 1.0, 5.0]
    assert [[each["value_double"] for each in row["exemplars"]] for row in plain(rows)] == [[], [], [8.0]]
    ((number, rejected),) = rows.rejected.items()
    assert (number, rejected.records) == (1, 8)
    assert set(rejected.reason.split("; ")) == {
        "2 with a series without samples and histograms",
        f"1 with an exemplar that has {ODD}",
        f"1 with an exemplar that has {BEYOND}",
        f"2 with {ODD}",
        f"2 with {BEYOND}",
    }


def test_symbols_are_those_of_the_request_itself() -> None:
    sent = []
    for number in range(3):
        request = Request()
        request.add((float(number), TIME_MS), name=f"m{number}", **{f"l{number}": "x" * number + "y"})
        sent.append(request.message)
    rows = plain(rows_of(*sent))
    assert [(row["metric_name"], row["attributes"]) for row in rows] == [
        (f"m{number}", [(f"l{number}", "x" * number + "y")]) for number in range(3)
    ]


def test_no_symbols() -> None:
    rows = rows_of(RequestV2(timeseries=[{"samples": [{"value": 1}]}]))
    assert rows.rejected[0].records == 1
    assert rows_of(RequestV2()).batch.num_rows == 0
    assert rows_of().batch.num_rows == 0


def test_the_first_symbol_is_empty() -> None:
    with pytest.raises(RequestError, match="The first symbol is not empty"):
        rows_of(RequestV2(symbols=["x"]))


@pytest.mark.parametrize("where", ["labels", "exemplars", "help", "many"])
def test_small_requests_that_would_be_more_than_there_is_memory(where: str) -> None:
    request = Request()
    long = request.ref("x" * 100_000)
    if where == "labels":
        for _ in range(110):
            request.add((1.0, TIME_MS), name="up").labels_refs.extend([1, long] * 100)
    elif where == "exemplars":
        series = request.add((1.0, TIME_MS), name="up")
        for _ in range(110):
            series.exemplars.add(labels_refs=[1, long] * 100)
    elif where == "help":
        for _ in range(11_000):
            request.add((1.0, TIME_MS), name="up").metadata.help_ref = long
    else:
        request.add((1.0, TIME_MS), name="up").labels_refs.extend([0] * 23_000_000)
    with pytest.raises(RequestError, match="Send smaller batches, or shorter attributes and labels"):
        rows_of(request.message)


@given(request=requests(exemplars=True, histograms=True).map(second), data=st.data())
def test_damaged_messages(request: Message, data: st.DataObject) -> None:
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(RequestError):
        rows_of(bytes(body[: data.draw(st.integers(0, len(body)))]))
