"""Tests an owner that is replaced while it still writes: no record is lost or duplicated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.config.model import Config
from tests.faults.group_members import PARTITIONS, Group, door_settings, s3_settings
from tests.faults.kafka_arrivals import check_log, wait_until_arrived
from tests.faults.kafka_producer import Producing
from tests.servers.kafka import KafkaServer
from tests.servers.proxy import Exchange, Proxy
from tests.servers.shared import S3Server


@pytest.fixture
def other_proxy(s3_server: S3Server) -> Iterator[Proxy]:
    with Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "late", ["between", pytest.param("before", marks=pytest.mark.soak), pytest.param("after", marks=pytest.mark.soak)]
)
def test_replaced_while_it_writes(
    late: str, kafka: KafkaServer, s3_prefix: str, s3_proxy: Proxy, other_proxy: Proxy, tmp_path: Path, seed: int
) -> None:
    """The old owner's writes arrive before the new one reads the log, just before it writes, or after that."""
    topic = kafka.create_topic(PARTITIONS)
    of_old = door_settings(kafka, topic, s3_settings(s3_proxy.endpoint, s3_prefix))
    of_new = door_settings(kafka, topic, s3_settings(other_proxy.endpoint, s3_prefix))
    with Producing(kafka, topic, PARTITIONS, seed) as producing, Group(tmp_path, kafka, topic) as group:
        old = group.start(of_old)
        group.wait_for_progress(PARTITIONS)
        sent = s3_proxy.on("PUT", "*.parquet").keep_request()
        group.wait_for(lambda: len(paths(sent)) == PARTITIONS, "about to write to every partition")
        old.freeze()
        if late == "before":
            deliver(sent)
        held = other_proxy.on("PUT", "*.parquet").keep_request()
        group.start(of_new)
        group.wait_for(lambda: len(paths(held)) == PARTITIONS, "taken over")
        if late == "between":
            assert paths(held) == paths(sent)
            deliver(sent)
        else:
            assert paths(held) == paths(sent) or late == "before"
        other_proxy.clear()
        group.wait_for_progress(PARTITIONS)
        s3_proxy.clear()
        if late == "after":
            deliver(sent)
        old.thaw()
        truth = producing.stop()
        wait_until_arrived(group, truth)
        for member in list(group.members):
            group.leave(member)
        check_log(Config.model_validate({**of_new, "data_dir": tmp_path / "reader"}), topic, truth)


def paths(requests: list[Exchange]) -> set[str]:
    return {request.path for request in requests}


def deliver(requests: list[Exchange]) -> None:
    """Delivers each segment as it was sent first."""
    for path in paths(requests):
        next(request for request in requests if request.path == path).forward()
