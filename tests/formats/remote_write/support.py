"""Builds requests of remote write, and the rows that they become."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message
from hypothesis import strategies as st

from frazil.formats.remote_write.families import Families
from frazil.formats.remote_write.histograms import STALE
from frazil.formats.remote_write.messages import WriteRequest
from frazil.formats.remote_write.v1 import to_rows
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.row_messages import Row, plain_rows
from frazil.formats.telemetry.rows import Arrival, TelemetryRows
from tests.formats.telemetry.support import NOW

TIME_MS = 1_700_000_000_000


def number(bits: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return found


def bits_of(value: float) -> int:
    found: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return found


STALE_NUMBER = number(STALE)


def add(request: Message, *samples: tuple[float, int], **labels: str) -> Any:
    """Returns a series with these samples. Its labels are in the given order, and `name` is the name of the
    metric."""
    series = request.timeseries.add()
    for name, value in labels.items():
        series.labels.add(name="__name__" if name == "name" else name, value=value)
    for measured, time in samples:
        series.samples.add(value=measured, timestamp=time)
    return series


def rows_of(
    *requests: Message | bytes, families: Families | None = None, tenants: list[str] | None = None
) -> TelemetryRows:
    """Converts requests. By default each has a tenant of its own: `tenant-0`, `tenant-1` and so on."""
    bodies = [each if isinstance(each, bytes) else each.SerializeToString() for each in requests]
    for body in bodies:
        check(WriteRequest, body)
    whose = tenants or [f"tenant-{number}" for number in range(len(bodies))]
    rows = to_rows(decode(WriteRequest, bodies), Arrival(whose, NOW), families or Families())
    rows.batch.validate(full=True)
    return rows


def plain(rows: TelemetryRows) -> list[Row]:
    return list(plain_rows(pa.Table.from_batches([rows.batch])))


# --- whatever may come -----------------------------------------------------------------------------------------

label_names = st.sampled_from(
    ["__name__", "job", "instance", "_a", "a.b", "a_b", "é", "le", "trace_id", "span_id", ""]
)
label_values = st.sampled_from(["", "x", "y", "0123456789abcdef", "0g", "é" * 9])
any_labels = st.lists(st.tuples(label_names, label_values), max_size=5)
good_labels = st.dictionaries(label_names.filter(bool), label_values.filter(bool), max_size=4).map(
    lambda found: [*found.items(), *([] if "__name__" in found else [("__name__", "up")])]
)
labels = st.one_of(good_labels, good_labels, any_labels)
values = st.floats() | st.sampled_from([STALE_NUMBER, number(0x7FF8000000000001), number(0xFFF0000000000003), -0.0])
times = st.integers(-(2**63), 2**63 - 1) | st.integers(TIME_MS, TIME_MS + 3) | st.integers(-3, 3)


@st.composite
def requests(draw: st.DrawFn, exemplars: bool = False, histograms: bool = False) -> Any:
    request = WriteRequest()
    for given in draw(st.lists(labels, max_size=4)):
        series = request.timeseries.add()
        for name, value in given:
            series.labels.add(name=name, value=value)
        for measured, time in draw(st.lists(st.tuples(values, times), max_size=3)):
            series.samples.add(value=measured, timestamp=time)
        if exemplars:
            for own, measured, time in draw(st.lists(st.tuples(labels, values, times), max_size=2)):
                exemplar = series.exemplars.add(value=measured, timestamp=time)
                for name, text in own:
                    exemplar.labels.add(name=name, value=text)
        if histograms:
            draw(st.lists(any_histogram(series.histograms), max_size=2))
    return request


@st.composite
def any_histogram(draw: st.DrawFn, histograms: Any) -> None:
    histogram = histograms.add(
        schema=draw(st.sampled_from([0, 3, 8, -4, -53, 9, -7])), timestamp=draw(times), sum=draw(values)
    )
    counts = st.integers(0, 9) | st.integers(0, 2**64 - 1)
    if draw(st.booleans()):
        histogram.count_int = draw(counts)
        histogram.zero_count_int = draw(counts)
    else:
        histogram.count_float = draw(values | st.integers(0, 9))
        histogram.zero_count_float = draw(values | st.integers(0, 9))
    for side in ("positive", "negative"):
        for offset, length in draw(st.lists(st.tuples(st.integers(-3, 20_000), st.integers(0, 3)), max_size=3)):
            getattr(histogram, f"{side}_spans").add(offset=offset, length=length)
        size = sum(span.length for span in getattr(histogram, f"{side}_spans")) + draw(st.sampled_from([0, 0, 0, 1]))
        getattr(histogram, f"{side}_deltas").extend(draw(st.integers(-2, 9)) for _ in range(size))
        getattr(histogram, f"{side}_counts").extend(draw(st.integers(0, 9) | values) for _ in range(size))
    histogram.custom_values.extend(draw(st.lists(st.floats(allow_nan=False), max_size=4)))
