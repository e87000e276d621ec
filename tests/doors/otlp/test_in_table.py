"""Everything that OTLP can express goes through the door, the log and the real pipeline into tables, and back."""

from __future__ import annotations

import asyncio
import gzip
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given
from hypothesis import seed as seeded
from hypothesis import settings as examples
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.config.model import Config
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, SPANS, Signal
from frazil.formats.otlp import logs, metrics, spans
from frazil.formats.telemetry.row_messages import Row, plain_rows, resource_of, scope_of
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier, find_table
from tests.doors.telemetry.support import Served, rows, serving, settings
from tests.formats.otlp.log_requests import requests as logs_requests
from tests.formats.otlp.metric_requests import point_by_point
from tests.formats.otlp.span_requests import requests as spans_requests
from tests.formats.telemetry.metric_strategies import requests as metrics_requests
from tests.pipeline.pipeline_process import PipelineProcess
from tests.pipeline.processes import QUICK, committed

pytestmark = pytest.mark.xdist_group("own-jvm")

TENANTS = ("one", "two")
EXAMPLES = 25
MOVED_SECONDS = 240.0
STALE = 0x7FF0000000000002
"""The NaN, one of many, with which Prometheus marks the end of a series."""

Buckets = ExponentialHistogramDataPoint.Buckets

REQUESTS: Mapping[Signal, st.SearchStrategy[Message]] = {
    LOGS: logs_requests,
    SPANS: spans_requests,
    METRICS: metrics_requests,
}
TO_MESSAGE: Mapping[Signal, Callable[[Row], Message]] = {
    LOGS: logs.to_message,
    SPANS: spans.to_message,
    METRICS: metrics.to_message,
}


class Told(NamedTuple):
    """All that a record contains, as bytes, because NaN is not equal to itself."""

    tenant: str
    resource: bytes | None
    resource_schema_url: str
    scope: bytes | None
    scope_schema_url: str
    record: bytes


def in_bytes(message: Message) -> bytes:
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


def told_by(signal: Signal, tenant: str, request: Message) -> Iterator[Told]:
    resources, scopes, records = {
        LOGS: ("resource_logs", "scope_logs", "log_records"),
        SPANS: ("resource_spans", "scope_spans", "spans"),
        METRICS: ("resource_metrics", "scope_metrics", "metrics"),
    }[signal]
    for of_resource in getattr(request, resources):
        resource = in_bytes(of_resource.resource) if of_resource.HasField("resource") else None
        for of_scope in getattr(of_resource, scopes):
            scope = in_bytes(of_scope.scope) if of_scope.HasField("scope") else None
            for record in getattr(of_scope, records):
                for alone in point_by_point(record) if signal is METRICS else [record]:
                    yield Told(tenant, resource, of_resource.schema_url, scope, of_scope.schema_url, in_bytes(alone))


def told_in(signal: Signal, table: pa.Table) -> Iterator[Told]:
    for row in plain_rows(table):
        resource, scope = resource_of(row), scope_of(row)
        yield Told(
            row["tenant_id"],
            None if resource is None else in_bytes(resource),
            row["resource_schema_url"],
            None if scope is None else in_bytes(scope),
            row["scope_schema_url"],
            in_bytes(TO_MESSAGE[signal](row)),
        )


def random_requests(signal: Signal, seed: int) -> list[Message]:
    found: list[Message] = []

    @seeded(seed)
    @examples(max_examples=EXAMPLES, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(request=REQUESTS[signal])
    def gather(request: Message) -> None:
        found.append(request)

    gather()
    return found


def odd_logs() -> Message:
    """Returns logs with values that are empty beside absent ones, and with numbers that are NaN or infinite."""
    values = [
        AnyValue(),
        AnyValue(string_value=""),
        AnyValue(bytes_value=b""),
        AnyValue(array_value=ArrayValue()),
        AnyValue(kvlist_value=KeyValueList()),
        AnyValue(double_value=math.nan),
        AnyValue(double_value=-0.0),
        AnyValue(double_value=math.inf),
        AnyValue(int_value=-(2**63)),
        AnyValue(bool_value=False),
        AnyValue(array_value=ArrayValue(values=[AnyValue(double_value=1), AnyValue(int_value=1), AnyValue()])),
    ]
    nanoseconds = 1_700_000_000_123_456_789
    records = [LogRecord(time_unix_nano=nanoseconds + n, body=value) for n, value in enumerate([None, *values])]
    pairs = [KeyValue(key=f"key {n}", value=value) for n, value in enumerate(values)] + [KeyValue(key="none")]
    records.append(LogRecord(time_unix_nano=1, attributes=pairs))
    scopes = [None, InstrumentationScope(), InstrumentationScope(name="a", version="1", attributes=pairs)]
    resources = [None, Resource(), Resource(attributes=pairs)]
    return logs.REQUEST(
        resource_logs=[
            ResourceLogs(
                resource=resource,
                schema_url="https://resource" if resource else "",
                scope_logs=[ScopeLogs(scope=scope, log_records=records, schema_url=f"{n}")],
            )
            for n, (resource, scope) in enumerate((resource, scope) for resource in resources for scope in scopes)
        ]
    )


def odd_metrics() -> Message:
    (stale,) = struct.unpack("<d", struct.pack("<Q", STALE))
    numbers = [
        NumberDataPoint(time_unix_nano=1),
        NumberDataPoint(time_unix_nano=2, flags=1),
        NumberDataPoint(time_unix_nano=3, as_int=0),
        NumberDataPoint(time_unix_nano=4, as_double=0.0),
        NumberDataPoint(time_unix_nano=5, as_double=-0.0),
        NumberDataPoint(time_unix_nano=6, as_double=math.nan),
        NumberDataPoint(time_unix_nano=7, as_double=stale),
    ]
    exponential = [
        ExponentialHistogramDataPoint(time_unix_nano=1, count=3),
        ExponentialHistogramDataPoint(time_unix_nano=2, positive=Buckets(), negative=Buckets(offset=-3)),
        ExponentialHistogramDataPoint(time_unix_nano=3, positive=Buckets(bucket_counts=[0, 2**63 - 1]), sum=0.0),
        ExponentialHistogramDataPoint(time_unix_nano=4, scale=-10, zero_count=1, zero_threshold=1e-9, min=-1, max=0),
    ]
    given = [
        Metric(name="numbers", gauge=Gauge(data_points=numbers)),
        Metric(
            name="exponential",
            exponential_histogram=ExponentialHistogram(
                data_points=exponential, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE
            ),
        ),
    ]
    return metrics.REQUEST(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=given)])])


async def send(served: Served, signal: Signal, tenant: str, number: int, body: bytes) -> None:
    """Sends a request in one of several ways; nothing of it is rejected."""
    if number % 3 == 2:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.door.grpc_port}") as channel:
            export = channel.unary_unary(f"/{signal.service}/Export")
            assert await export(body, metadata=[("x-scope-orgid", tenant)]) == b""
        return
    packed = number % 3 == 1
    encoding = {"content_encoding": "gzip"} if packed else {}
    content = gzip.compress(body) if packed else body
    answer = await served.post(signal.path, content, x_scope_orgid=tenant, **encoding)
    assert (answer.status_code, answer.content) == (200, b"")


class Sent:
    """Requests, each of a tenant, and what must be found of them."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.expected: dict[Signal, Counter[Told]] = {signal: Counter() for signal in SIGNALS}
        self._known: set[tuple[Signal, str, bytes]] = set()

    async def send(self, served: Served, wave: int) -> None:
        odd = {LOGS: [odd_logs()], METRICS: [odd_metrics()], SPANS: []}
        for signal in SIGNALS:
            given = [*(odd[signal] if wave == 0 else []), *random_requests(signal, self._seed + wave)]
            for number, request in enumerate(given):
                tenant, body = TENANTS[number % len(TENANTS)], request.SerializeToString()
                await send(served, signal, tenant, number, body)
                # What was sent before is not stored again.
                if (signal, tenant, body) not in self._known:
                    self._known.add((signal, tenant, body))
                    self.expected[signal].update(told_by(signal, tenant, request))


def in_table(config: Config, signal: Signal) -> pa.Table:
    """Returns the rows as PyIceberg reads them."""
    with closing(Lake(config)) as lake:
        return lake.load(base_identifier(config, signal.requests.topic)).scan().to_arrow()


def compactions(config: Config, signal: Signal) -> int:
    with closing(Lake(config)) as lake:
        table = find_table(lake, base_identifier(config, signal.requests.topic))
        snapshots = table.snapshots() if table else []
        return sum(1 for each in snapshots if each.summary and each.summary.operation.value == "replace")


def check_fresh(config: Config, sent: Sent) -> None:
    """Checks the rows as readers see them that join table and log."""
    for signal in SIGNALS:
        tables = [rows(config, signal.requests.topic, tenant) for tenant in TENANTS]
        found = Counter(each for table in tables for each in told_in(signal, table))
        assert found == sent.expected[signal], signal.requests.topic


def written(config: Config, signal: Signal) -> pa.Table:
    """Returns the rows of all files that the pipeline committed, whatever has become of them since."""
    with closing(Lake(config)) as lake:
        table = lake.load(base_identifier(config, signal.requests.topic))
        entries = [
            entry
            for snapshot in table.snapshots()
            if snapshot.summary and snapshot.summary.operation.value == "append"
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
        ]
    paths = [entry.data_file.file_path.removeprefix("file://") for entry in entries]
    return pa.concat_tables(pq.read_table(path, partitioning=None) for path in paths)


def check_tables(config: Config, sent: Sent) -> None:
    """Checks the rows of the tables. Spark rewrites files, and knows a single NaN: all others become that one."""
    for signal in SIGNALS:
        expected, topic = sent.expected[signal], signal.requests.topic
        assert Counter(told_in(signal, written(config, signal))) == expected, topic
        found = Counter(told_in(signal, in_table(config, signal)))
        if signal is METRICS:
            assert with_one_nan(found) == with_one_nan(expected)
        else:
            assert found == expected, topic


def with_one_nan(points: Counter[Told]) -> Counter[Told]:
    found: Counter[Told] = Counter()
    for told, count in points.items():
        metric = Metric.FromString(told.record)
        make_nan_plain(metric)
        found[told._replace(record=in_bytes(metric))] += count
    return found


def make_nan_plain(message: Message) -> None:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            if isinstance(value, float):
                setattr(message, field.name, math.nan if math.isnan(value) else value)
            else:
                value[:] = [math.nan if math.isnan(each) else each for each in value]
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in [value] if isinstance(value, Message) else value:
                make_nan_plain(each)


def check_stale(table: pa.Table) -> None:
    """Checks the bits of the stale marker, which no comparison of numbers can tell apart."""
    values = table.filter(pc.equal(table["metric_name"], "numbers"))["value_double"].combine_chunks()
    assert STALE in values.drop_null().view(pa.uint64()).to_pylist()


@pytest.mark.timeout(900)
def test_what_comes_is_in_the_table_as_it_came(tmp_path: Path, seed: int) -> None:
    # Records of many days would leave compaction nothing to join.
    by_tenant: dict[str, Any] = {"table": {"partition_by": ["tenant_id"]}}
    config = settings(
        tmp_path,
        log={"seal": {"interval_seconds": 0.2}},
        pipeline=QUICK,
        maintenance={"compaction": {"interval_seconds": 3, "settle_seconds": 1, "min_input_files": 2}},
        topics={"logs": by_tenant, "metrics": by_tenant},
    )
    sent = Sent(seed)

    def moved(served: Served) -> bool:
        return all(
            committed(config, signal.requests.topic) == {0: served.stored(signal.requests.topic)}
            for signal in SIGNALS
        )

    with PipelineProcess(config) as pipeline:

        async def scenario() -> None:
            async with serving(config) as served:
                for wave in range(2):
                    await sent.send(served, wave)
                    await asyncio.to_thread(check_fresh, config, sent)
                    waiting = (lambda: moved(served), "moved what came", MOVED_SECONDS)
                    await asyncio.to_thread(pipeline.wait_for, *waiting)

        asyncio.run(scenario())
        pipeline.wait_for(
            lambda: all(compactions(config, each) for each in (LOGS, METRICS)), "compacted", MOVED_SECONDS
        )
        check_tables(config, sent)
        assert pipeline.stop() == 0
    check_stale(written(config, METRICS))
