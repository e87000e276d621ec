"""A tenant that is over a limit is told which one, over every protocol, and others are not affected."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.load import load_config
from frazil.config.sections.telemetry import TelemetryConfig
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, SPANS, Signal
from frazil.doors.telemetry.metrics import MOST_TENANTS, OTHERS, TelemetryMetrics
from frazil.doors.telemetry.tenant_limits import TenantLimits, most_row_bytes, row_bytes
from frazil.errors import ConfigError, RateExceeded
from frazil.ops.metrics import create_registry
from tests.doors.loki.support import push, push_body
from tests.doors.prometheus.support import samples, write
from tests.doors.telemetry.support import TIME, Served, logs_request, rows, run, settings
from tests.formats.otlp.log_requests import requests as logs_requests
from tests.formats.otlp.span_requests import requests as spans_requests
from tests.formats.telemetry.metric_strategies import requests as metrics_requests
from tests.formats.telemetry.support import rows_of
from tests.log.support import ManualClock

TELEMETRY: dict[str, Any] = {
    "limits": {"max_record_kb": 8, "max_attributes": 6},
    "tenants": {
        "small": {"max_record_kb": 2, "max_attributes": 3},
        "large": {"max_record_kb": 32},
        "slow": {"rate_mb": 0.01, "burst_mb": 0.5},
    },
}
OWN, COMMON = "telemetry.tenants.small", "telemetry.limits"


async def over_http(served: Served, signal: Signal, tenant: str, body: bytes) -> Message:
    answer = await served.post(signal.path, body, x_scope_orgid=tenant)
    assert answer.status_code == 200
    return signal.response.FromString(answer.content)


async def over_grpc(served: Served, signal: Signal, tenant: str, body: bytes) -> Message:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{served.door.grpc_port}") as channel:
        export = channel.unary_unary(f"/{signal.service}/Export")
        return signal.response.FromString(await export(body, metadata=[("x-scope-orgid", tenant)]))


def request_of(signal: Signal, *records: tuple[str, int]) -> bytes:
    """Returns a request with a record for each text and number of attributes."""
    request = signal.requests.message()
    for number, (text, attributes) in enumerate(records):
        if signal is LOGS:
            record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=TIME + number)
            record.body.string_value = text
        elif signal is SPANS:
            record = request.resource_spans.add().scope_spans.add().spans.add(name=text)
            record.start_time_unix_nano = TIME + number
        else:
            metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=text)
            record = metric.gauge.data_points.add(time_unix_nano=TIME + number, as_int=1)
        for each in range(attributes):
            record.attributes.add(key=f"a{each}").value.int_value = each
    serialized: bytes = request.SerializeToString()
    return serialized


@pytest.mark.parametrize("above", ["resource", "scope"])
@pytest.mark.parametrize("count", [1, 100], ids=["small", "large"])
@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.requests.topic)
def test_attributes_above_the_records_are_counted_too(signal: Signal, count: int, above: str, tmp_path: Path) -> None:
    """This holds for requests that are stored as they came, and for those stored as rows."""
    config = settings(tmp_path, telemetry=TELEMETRY)

    def body(attributes: int) -> bytes:
        request = signal.requests.message.FromString(request_of(signal, ("a" * 300, 0)))
        ((_, (level,)),) = request.ListFields()
        scope = next(value[0] for field, value in level.ListFields() if field.name.startswith("scope_"))
        for number in range(attributes):
            pair = (level.resource if above == "resource" else scope.scope).attributes.add(key=f"a{number}")
            pair.value.int_value = number
        return b"".join([request.SerializeToString()] * count)

    async def scenario(served: Served) -> None:
        assert await over_http(served, signal, "other", body(6)) == signal.response()
        partial = (await over_http(served, signal, "other", body(7))).partial_success
        reason = f"more than 6 attributes (`{COMMON}.max_attributes`)"
        assert (getattr(partial, signal.rejected_field), partial.error_message) == (count, reason)
        assert len(await asyncio.to_thread(rows, config, signal.requests.topic, "other")) == count

    run(config, scenario)


@pytest.mark.parametrize("send", [over_http, over_grpc])
@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.requests.topic)
def test_records_over_a_limit(signal: Signal, send: Any, tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry=TELEMETRY)
    topic = signal.requests.topic
    column = {LOGS: "body", SPANS: "name", METRICS: "metric_name"}[signal]
    fits, long, longer, longest = "a", "b" * 3_000, "c" * 10_000, "d" * 40_000
    body = request_of(signal, (fits, 3), (long, 0), (longer, 0), (longest, 0), ("many", 5), ("too many", 7))

    async def scenario(served: Served) -> None:
        async def rejected(tenant: str) -> tuple[int, str, list[str]]:
            partial = (await send(served, signal, tenant, body)).partial_success
            kept = (await asyncio.to_thread(rows, config, topic, tenant))[column].to_pylist()
            return getattr(partial, signal.rejected_field), partial.error_message, sorted(kept)

        count, reason, kept = await rejected("small")
        assert (count, kept) == (5, [fits])
        assert f"larger than 2 KiB (`{OWN}.max_record_kb`)" in reason
        assert f"more than 3 attributes (`{OWN}.max_attributes`)" in reason

        count, reason, kept = await rejected("other")
        assert (count, kept) == (3, [fits, long, "many"])
        assert f"larger than 8 KiB (`{COMMON}.max_record_kb`)" in reason
        assert f"more than 6 attributes (`{COMMON}.max_attributes`)" in reason

        count, reason, kept = await rejected("large")
        assert (count, kept) == (2, [fits, long, longer, "many"])
        assert "larger than 32 KiB (`telemetry.tenants.large.max_record_kb`)" in reason
        assert f"(`{COMMON}.max_attributes`)" in reason

    run(config, scenario)


def test_attributes_of_a_resource_and_labels_of_a_stream_are_counted(tmp_path: Path) -> None:
    """Each kind of attributes counts on its own: a record may have as many again."""
    config = settings(tmp_path, telemetry=TELEMETRY)
    reason = f"more than 3 attributes (`{OWN}.max_attributes`)"

    def body(attributes: int) -> bytes:
        request = logs_request(f"{attributes}")
        level = request.resource_logs[0]
        for number in range(1, attributes):
            level.resource.attributes.add(key=f"r{number}").value.int_value = number
        for number in range(3):
            level.scope_logs[0].log_records[0].attributes.add(key=f"a{number}").value.int_value = number
        serialized: bytes = request.SerializeToString()
        return serialized

    async def scenario(served: Served) -> None:
        assert await over_http(served, LOGS, "small", body(3)) == LOGS.response()
        partial = (await over_http(served, LOGS, "small", body(4))).partial_success
        assert (partial.rejected_log_records, partial.error_message) == (1, reason)
        fits, many = (push_body(text, labels=dict.fromkeys(text, "x")) for text in ("abc", "abcd"))
        assert (await push(served, fits, x_scope_orgid="small")).status_code == 204
        answer = await push(served, many, x_scope_orgid="small")
        assert answer.status_code == 400
        assert reason in answer.text
        found = await asyncio.to_thread(rows, config, tenant="small")
        assert sorted(found["body"].to_pylist()) == ["3", "abc"]

    run(config, scenario)


def test_requests_of_several_tenants_at_once_have_limits_of_their_own(tmp_path: Path) -> None:
    """The requests are decoded together."""
    config = settings(tmp_path, telemetry=TELEMETRY)
    body = request_of(LOGS, ("a", 0), ("b" * 3_000, 0), ("many", 5))
    tenants = ["small", "other"] * 20

    async def scenario(served: Served) -> None:
        answers = await asyncio.gather(*(over_http(served, LOGS, tenant, body) for tenant in tenants))
        assert [answer.partial_success.rejected_log_records for answer in answers] == [2, 0] * 20
        assert len(await asyncio.to_thread(rows, config, tenant="small")) == 1
        assert len(await asyncio.to_thread(rows, config, tenant="other")) == 3

    run(config, scenario)


def test_a_rate(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry=TELEMETRY)
    reason = "Tenant 'slow' sends more than 0.01 MiB a second (`telemetry.tenants.slow.rate_mb`)."

    def body(number: int) -> bytes:
        return request_of(LOGS, *((f"{number} {each} {'x' * 5000}", 0) for each in range(60)))

    async def scenario(served: Served) -> None:
        await over_grpc(served, LOGS, "slow", body(0))
        answer = await served.post("/v1/logs", body(1), x_scope_orgid="slow")
        assert (answer.status_code, Status.FromString(answer.content).message) == (429, reason)
        assert int(answer.headers["retry-after"]) > 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await over_grpc(served, LOGS, "slow", body(2))
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        details = dict(caught.value.trailing_metadata() or ())["grpc-status-details-bin"]
        assert Status.FromString(details).details[0].Is(RetryInfo.DESCRIPTOR)
        for number in range(3, 6):
            await over_http(served, LOGS, "other", body(number))
        assert len(await asyncio.to_thread(rows, config, tenant="slow")) == 60
        assert len(await asyncio.to_thread(rows, config, tenant="other")) == 180

    run(config, scenario)


def test_lines_and_samples_have_the_same_limits(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry=TELEMETRY)

    def refused(answer: httpx.Response, reason: str) -> None:
        assert (answer.status_code, reason in answer.text) == (400, True), answer.text

    async def scenario(served: Served) -> None:
        size = f"larger than 2 KiB (`{OWN}.max_record_kb`)"
        refused(await push(served, push_body("fits", "b" * 3_000), x_scope_orgid="small"), size)
        refused(await write(served, samples(1, name="m", job="b" * 3_000), x_scope_orgid="small"), size)
        many = samples(1, name="m", a="1", b="2", c="3", d="4")
        refused(await write(served, many, x_scope_orgid="small"), f"(`{OWN}.max_attributes`)")
        assert (await asyncio.to_thread(rows, config, tenant="small"))["body"].to_pylist() == ["fits"]
        assert not served.stored("metrics")

        text = "".join(random.Random(0).choices("0123456789abcdef", k=6_000))
        rate = "`telemetry.tenants.slow.rate_mb`"
        for number in range(200):
            answer = await push(served, push_body(text, time=TIME + number), x_scope_orgid="slow")
            if answer.status_code != 204:
                break
        assert (answer.status_code, rate in answer.text) == (429, True)
        assert int(answer.headers["retry-after"]) >= 1
        answer = await write(served, samples(*range(100), name=text), x_scope_orgid="slow")
        assert (answer.status_code, rate in answer.text) == (429, True)
        assert (await asyncio.to_thread(rows, config, tenant="slow")).num_rows == number

    run(config, scenario)


def test_what_may_be_sent_comes_back_with_time() -> None:
    clock = ManualClock()
    config = TelemetryConfig.model_validate({"tenants": {"one": {"rate_mb": 1, "burst_mb": 2}}})
    limits = TenantLimits(config, clock.monotonic)
    mib = 1 << 20
    limits.spend("one", 2 * mib)
    with pytest.raises(RateExceeded) as caught:
        limits.spend("one", mib)
    assert caught.value.seconds == pytest.approx(1.0)
    limits.spend("two", 100 * mib)
    clock.advance(1)
    limits.spend("one", mib)
    clock.advance(1000)
    limits.spend("one", 2 * mib)
    with pytest.raises(RateExceeded):
        limits.spend("one", 1)


def test_a_request_above_the_burst_is_taken_once_there_is_all_of_it() -> None:
    clock = ManualClock()
    limits = TenantLimits(TelemetryConfig.model_validate({"limits": {"rate_mb": 1}}), clock.monotonic)
    limits.spend("one", 10 << 20)
    clock.advance(9)
    with pytest.raises(RateExceeded):
        limits.spend("one", 10 << 20)
    clock.advance(1)
    limits.spend("one", 10 << 20)


def test_names_that_no_tenant_can_have(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("telemetry: {tenants: {a/b: {rate_mb: 1}}}\n")
    with pytest.raises(ConfigError, match=r"telemetry\.tenants\.a/b: cannot be a tenant"):
        load_config(tmp_path / "frazil.yaml")


def test_requests_of_no_records(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert await over_http(served, LOGS, "small", b"") == LOGS.response()
        assert await over_grpc(served, LOGS, "small", logs_request().SerializeToString()) == LOGS.response()
        assert served.stored() == 0

    run(settings(tmp_path, telemetry=TELEMETRY), scenario)


def test_tenants_that_somebody_makes_up_are_not_counted_one_by_one() -> None:
    registry = create_registry()
    metrics = TelemetryMetrics(registry)
    for number in range(MOST_TENANTS + 5):
        metrics.refused("logs", f"tenant-{number}", 1)
    metrics.refused("logs", "tenant-0", 2)

    def count(tenant: str) -> float | None:
        return registry.get_sample_value("frazil_telemetry_rejected_total", {"topic": "logs", "tenant": tenant})

    assert (count("tenant-0"), count(f"tenant-{MOST_TENANTS}"), count(OTHERS)) == (3, None, 5)


@given(request=logs_requests, first=st.integers(0, 3))
def test_no_log_record_is_larger_than_the_most(request: Message, first: int) -> None:
    check_most(rows_of(LOGS, request).batch.slice(first))


@given(request=spans_requests, first=st.integers(0, 3))
def test_no_span_is_larger_than_the_most(request: Message, first: int) -> None:
    check_most(rows_of(SPANS, request).batch.slice(first))


@given(request=metrics_requests, first=st.integers(0, 3))
def test_no_point_is_larger_than_the_most(request: Message, first: int) -> None:
    check_most(rows_of(METRICS, request).batch.slice(first))


def check_most(batch: pa.RecordBatch) -> None:
    assert row_bytes(batch).max(initial=0) <= most_row_bytes(batch)
