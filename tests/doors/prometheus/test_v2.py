"""Remote write 2.0 over HTTP is answered as the protocol wants, and what is accepted is stored."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.formats.otlp import metrics
from frazil.formats.remote_write.histograms import STALE
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.query.sql.session import SqlSession
from tests.doors.prometheus.support import PATH, TYPE_2, packed, samples, write
from tests.doors.telemetry.support import Served, rows, run, settings
from tests.formats.remote_write import support as first
from tests.formats.remote_write.support import STALE_NUMBER, TIME_MS, bits_of
from tests.formats.remote_write.v2_support import Request
from tests.pipeline.support import move_all, pipeline_context

NATIVE = [field.name for field in metrics.NATIVE]


async def send(served: Served, request: Any, **headers: str) -> httpx.Response:
    """Sends a request as Prometheus 3 does."""
    body = request if isinstance(request, bytes) else request.message.SerializeToString()
    told = {
        "content_encoding": "snappy",
        "content_type": TYPE_2,
        "x_prometheus_remote_write_version": "2.0.0",
        **headers,
    }
    return await served.post(PATH, packed(body), "prometheus", **told)


def written(answer: httpx.Response) -> tuple[int, ...]:
    """Returns the numbers of samples, histograms and exemplars that the answer says are stored."""
    names = ("Samples", "Histograms", "Exemplars")
    return tuple(int(answer.headers[f"X-Prometheus-Remote-Write-{name}-Written"]) for name in names)


def everything() -> Request:
    """Returns a request with each kind of record."""
    request = Request()
    series = request.add(name="requests_total", job="api")
    series.samples.add(value=5, timestamp=TIME_MS, start_timestamp=TIME_MS - 1000)
    series.samples.add(value=STALE_NUMBER, timestamp=TIME_MS + 1)
    series.exemplars.add(value=0.5, timestamp=TIME_MS, labels_refs=request.refs(("trace_id", "0af7")))
    series.metadata.type, series.metadata.help_ref = 1, request.ref("Requests.")
    series = request.add(name="took_seconds", job="api")
    series.histograms.add(
        count_float=2.5,
        sum=STALE_NUMBER,
        positive_spans=[{"offset": 1, "length": 1}],
        positive_counts=[2.5],
        reset_hint=1,
        timestamp=TIME_MS,
        start_timestamp=1,
    )
    series.histograms.add(count_int=3, schema=-53, custom_values=[0.5], timestamp=0)
    return request


def test_everything_is_stored_and_counted(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        for again in range(2):
            answer = await send(served, everything())
            assert (answer.status_code, answer.content, written(answer)) == (204, b"", (2, 2, 1)), again
        assert served.stored("metrics") == 4
        assert written(await send(served, Request())) == (0, 0, 0)
        # Answers to 1.0 have no such headers.
        answer = await write(served, samples(1.0))
        assert not [name for name in answer.headers if "written" in name]

    run(config, scenario)


def test_what_is_stored_of_a_request_is_told_with_what_is_not(tmp_path: Path) -> None:
    config = settings(tmp_path, telemetry={"limits": {"max_attributes": 2}})
    request = everything()
    request.add((1.0, TIME_MS), job="no name")
    request.add((2.0, TIME_MS), name="many", a="1", b="2", c="3")
    request.add((3.0, TIME_MS), name="odd").labels_refs.append(1)

    async def scenario(served: Served) -> None:
        answer = await send(served, request)
        assert (answer.status_code, written(answer)) == (400, (2, 2, 1))
        assert "3 records can never be stored" in answer.text
        assert "references to labels that are no pairs" in answer.text
        assert "more than 2 attributes" in answer.text
        assert served.stored("metrics") == 4

    run(config, scenario)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff\xff", "The body is no Request"),
        (b"\x22\x01x", "The first symbol is not empty"),
        (b"\x22\x01\xff", "The body is no Request"),
    ],
)
def test_wrong_requests_are_refused_alone(body: bytes, reason: str, tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        good = Request()
        good.add((1.0, TIME_MS), name="good")
        answers = await asyncio.gather(send(served, good), *(send(served, body) for _ in range(3)))
        assert (answers[0].status_code, written(answers[0])) == (204, (1, 0, 0))
        bad = answers[1:]
        assert [(each.status_code, written(each)) for each in bad] == [(400, (0, 0, 0))] * 3
        assert all(reason in each.text for each in bad)
        assert served.stored("metrics") == 1

    run(settings(tmp_path), scenario)


def stored_before(config: Config) -> None:
    """Prepares a row in the table and one in the WAL, of a topic without the columns of native histograms."""
    older = pa.schema([field for field in metrics.SCHEMA if field.name not in NATIVE])
    with closing(Log(config)) as log, pipeline_context(config) as tools:
        writer = log.writer(metrics.TOPIC, older)
        for number in range(2):
            request = samples(float(number), name="older", time=TIME_MS + number)
            writer.append(first.rows_of(request, tenants=["default"]).batch.select(older.names))
            if not number:
                writer.seal_all()
                move_all(tools, metrics.TOPIC)


def test_an_older_topic_and_its_table_get_all_of_it(tmp_path: Path) -> None:
    config = settings(tmp_path)
    stored_before(config)

    async def scenario(served: Served) -> None:
        assert (await send(served, everything())).status_code == 204

    run(config, scenario)
    for moved in (False, True):
        if moved:
            with closing(Log(config)) as log, pipeline_context(config) as tools:
                log.writer(metrics.TOPIC, metrics.SCHEMA).seal_all()
                move_all(tools, metrics.TOPIC)
            table = Lake(config).load(base_identifier(config, metrics.TOPIC))
            assert table.scan().to_arrow().num_rows == 6
        found = rows(config, "metrics").sort_by("timestamp").to_pylist()
        assert [row["value_double"] for row in found if row["metric_name"] == "older"] == [0.0, 1.0]
        assert all(row[name] is None for row in found for name in NATIVE if row["metric_name"] == "older")
        values = [row for row in found if row["metric_name"] == "requests_total"]
        assert [bits_of(row["value_double"]) for row in values] == [bits_of(5.0), STALE]
        assert [len(row["exemplars"]) for row in values] == [1, 0]
        (stale,) = [row for row in found if row["counter_reset_hint"] == "reset"]
        assert bits_of(stale["sum"]) == STALE
        with SqlSession(config) as session:
            answer = session.ask(
                "SELECT metric_type, epoch_ms(timestamp), epoch_ms(start_timestamp), count, count_double, "
                "positive_bucket_counts_double, scale, explicit_bounds, bucket_counts, counter_reset_hint "
                "FROM metrics WHERE metric_name = 'took_seconds' ORDER BY timestamp",
                "default",
            )
        assert [tuple(row.values()) for row in answer.to_pylist()] == [
            ("histogram", 0, None, 3, None, None, -53, [0.5], [0, 0], "unknown"),
            ("exponential_histogram", TIME_MS, 1, None, 2.5, [2.5], 0, None, None, "reset"),
        ]
