"""Tests Danube's own client, which produces and consumes while the server is killed again and again."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from frazil.scan.read_api import read
from tests.doors.danube.clients import Consumer, Event, Producer, until
from tests.doors.process import IngestProcess
from tests.servers.child import free_ports

TOPIC, TABLE = "/default/orders", "default.orders"
PARTITIONS, KEYS = 4, 16
WAIT_SECONDS = 300.0
LATE_SECONDS = 5.0
"""A message that is sent again when its acknowledgement arrives may come this much later."""


def killed(tmp_path: Path, seed: int, messages: int, deaths: int) -> None:
    chance = random.Random(seed)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = {"danube": {"port": port}, "log": {"seal": {"interval_seconds": 1}}}
    server = IngestProcess(tmp_path / "server", settings, {"FRAZIL__DANUBE__ENABLED": "true"})
    try:
        made = Producer(url, TOPIC, tmp_path / "made", name="p", partitions=PARTITIONS, count=0, keys=1)
        until(lambda: not made.alive, WAIT_SECONDS)
        assert made.wait(1) == 0, made.log()
        consumers = {
            (subscription, number): Consumer(
                url,
                TOPIC,
                tmp_path / f"{subscription}-{number}",
                subscription=subscription,
                kind=kind,
                name=f"{subscription}-{number}",
            )
            for subscription, kind, number in (
                ("shared", "SHARED", 1),
                ("keys", "KEY_SHARED", 1),
                ("keys", "KEY_SHARED", 2),
            )
        }
        everybody = list(consumers.values())
        until(lambda: all(each.subscribed for each in everybody), WAIT_SECONDS, *everybody)
        producer = Producer(
            url, TOPIC, tmp_path / "produced", name="p", partitions=PARTITIONS, count=messages, keys=KEYS
        )
        for death in range(deaths):
            wanted = messages * (death + 1) // (deaths + 2)
            until(partial(has_sent, producer, wanted), WAIT_SECONDS, producer, *everybody)
            time.sleep(chance.random() * 0.3)
            server.kill()
            server.start()
        until(lambda: not producer.alive, WAIT_SECONDS, *everybody)
        assert producer.wait(1) == 0, producer.log()[-3000:]
        sent = set(producer.acknowledged())
        assert len(sent) == messages

        def told(subscription: str) -> list[Event]:
            found = [
                event for (name, _), each in consumers.items() if name == subscription for event in each.events()
            ]
            return sorted(found, key=lambda event: event.at)

        def all_acknowledged(subscription: str) -> bool:
            enough = sum(len(each.told()) for (name, _), each in consumers.items() if name == subscription)
            return enough > 2 * messages and sent <= {
                event.text for event in told(subscription) if event.what == "acknowledged"
            }

        for subscription in ("shared", "keys"):
            until(partial(all_acknowledged, subscription), WAIT_SECONDS, *everybody)
        for each in everybody:
            each.stop()
    finally:
        server.stop()
    rows = read(TABLE, config=server.config).table()
    stored = [payload.decode() for payload in rows["payload"].to_pylist()]
    assert set(stored) == sent
    check_once_acknowledged(told("shared"))
    check_once_acknowledged(told("keys"))
    check_order(told("keys"))


def has_sent(producer: Producer, messages: int) -> bool:
    return len(producer.acknowledged()) >= messages


def check_once_acknowledged(events: Iterable[Event]) -> None:
    """Checks that messages do not come again after they were acknowledged."""
    acknowledged: dict[tuple[str, int], float] = {}
    for event in events:
        if event.what == "acknowledged":
            acknowledged.setdefault(event.place, event.at)
        elif event.place in acknowledged:
            late = event.at - acknowledged[event.place]
            assert late < LATE_SECONDS, f"{event} came {late:.1f} s after it was acknowledged"


def check_order(events: Iterable[Event]) -> None:
    """Checks that messages of a key come in their order. Some may come again, followed by those after them."""
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.what == "received" and event.number not in seen[event.key]:
            seen[event.key].append(event.number)
    for key, numbers in seen.items():
        assert numbers == sorted(numbers), key


@pytest.mark.timeout(900)
def test_a_few_deaths(tmp_path: Path, seed: int) -> None:
    killed(tmp_path, seed, messages=2_000, deaths=3)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_many_deaths(tmp_path: Path, seed: int) -> None:
    killed(tmp_path, seed, messages=100_000, deaths=30)
