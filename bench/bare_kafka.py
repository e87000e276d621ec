"""Measures what the machine can do with Kafka: `consume` messages and count them.

It runs as a process of its own, so that nothing else that Python has in memory slows it down.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import Consumer

AT_ONCE = 10_000
"""One call asks for this many messages, as many as the door takes at most."""
_PATIENCE_SECONDS = 60.0
_NOTHING: Mapping[str, str] = {}


class Consumed(NamedTuple):
    """Records that were consumed, measured from the arrival of the first."""

    records: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_seconds / self.records * 1e6


def count_messages(bootstrap: str, topic: str, count: int, settings: Mapping[str, str] = _NOTHING) -> Consumed:
    """Consume the first `count` messages of a topic, with the client's own defaults but for these settings."""
    command = [sys.executable, "-m", "bench.bare_kafka", bootstrap, topic, str(count), json.dumps(dict(settings))]
    return Consumed(**json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def _count(bootstrap: str, topic: str, count: int, settings: Mapping[str, str]) -> Consumed:
    group = f"bare-{uuid.uuid4().hex}"
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", **settings}
    )
    consumer.subscribe([topic])
    patience = time.monotonic() + _PATIENCE_SECONDS
    first = 0
    while not first and time.monotonic() < patience:
        first = len(consumer.consume(1, 1.0))
    started, cpu = time.perf_counter(), time.process_time()
    seen = first
    while seen < count:
        messages = consumer.consume(min(AT_ONCE, count - seen), _PATIENCE_SECONDS)
        if not messages:
            raise TimeoutError(f"{topic}: no message after {seen:,} of {count:,}")
        seen += len(messages)
    taken = Consumed(seen - first, time.perf_counter() - started, time.process_time() - cpu)
    consumer.close()
    return taken


if __name__ == "__main__":
    _, _bootstrap, _topic, _number, _settings = sys.argv
    print(json.dumps(_count(_bootstrap, _topic, int(_number), json.loads(_settings))._asdict()))
