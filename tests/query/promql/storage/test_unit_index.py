"""Tests that rows are of one series if their labels are the same, whatever else is."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.message import Message
from hypothesis import given

from frazil.doors.otlp.signals import METRICS
from frazil.formats.remote_write.messages import WriteRequest
from frazil.formats.telemetry.series import labels
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.query.promql.storage.unit_index import LabelRules, index_of
from tests.formats.remote_write.support import add, rows_of
from tests.formats.telemetry.metric_strategies import requests
from tests.formats.telemetry.support import rows_of as rows_of_otlp


def in_log(batch: pa.RecordBatch, offsets: list[int] | None = None) -> pa.RecordBatch:
    """Returns rows as a scan gives them."""
    places = pa.array(offsets if offsets is not None else range(len(batch)), pa.int64())
    batch = batch.append_column(PARTITION, pa.array([0] * len(batch), pa.int32()))
    return batch.append_column(OFFSET, places)


def test_series_with_equal_ids_stay_apart() -> None:
    request = WriteRequest()
    add(request, (1.0, 1000), (2.0, 2000), name="load", host="a")
    add(request, (3.0, 1000), name="load", host="b")
    batch = rows_of(request).batch
    at = batch.schema.get_field_index("series_id")
    collided = batch.set_column(at, "series_id", pa.array([7] * len(batch), pa.int64()))
    index = index_of(in_log(collided), LabelRules())
    assert [row["host"] for row in index.labels.rows()] == ["a", "b"]
    assert index.offsets.tolist() == [0, 2, 3]


def test_rows_of_a_series_are_sorted_by_time_and_place() -> None:
    request = WriteRequest()
    add(request, (1.0, 2000), (2.0, 1000), (3.0, 2000), name="load")
    index = index_of(in_log(rows_of(request).batch, [9, 5, 3]), LabelRules())
    assert index.rows is not None
    assert (index.times.tolist(), index.rows.tolist()) == ([1000, 2000, 2000], [1, 2, 0])


@given(requests)
def test_labels_are_those_by_which_ids_are_made(request: Message) -> None:
    batch = rows_of_otlp(METRICS, request).batch
    if not len(batch):
        return
    index = index_of(in_log(batch), LabelRules())
    rows = index.rows.tolist() if index.rows is not None else list(range(len(batch)))
    plain = batch.to_pylist()
    for series, found in enumerate(index.labels.rows()):
        found.pop("__temporality__", None)
        for at in rows[index.offsets[series] : index.offsets[series + 1]]:
            row = plain[at]
            named = labels(row["prometheus_name"], row["attributes"] or [], row["resource_attributes"] or [])
            assert found == named
