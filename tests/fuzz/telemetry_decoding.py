"""Decodes damaged telemetry messages, in a process that may die of it.

`python -m tests.fuzz.telemetry_decoding SEED CASES` prints what became of them as JSON.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from frazil.config.sections.telemetry import TelemetryConfig
from frazil.doors.loki.push import PUSH
from frazil.doors.otlp.signals import LOGS, METRICS, SIGNALS, SPANS
from frazil.doors.prometheus import remote_write
from frazil.doors.telemetry.conversion import RequestConverter, TelemetryRequest
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.errors import RequestError
from frazil.formats.otlp.raw import ERROR
from frazil.log.forms import RawAppends
from frazil.ops.metrics import create_registry
from tests.faults.telemetry_clients import logs_of, points_of, samples_request, spans_of
from tests.formats.remote_write.v2_support import second
from tests.fuzz.mutation import damaged, message
from tests.fuzz.random_messages import build
from tests.log.support import ManualClock

CONCURRENT_REQUESTS = 60
POOL = 15
"""The damaged messages are made from this many valid ones of each kind."""
PLAIN = [
    (LOGS.requests, logs_of(["first", "second"], 1)),
    (SPANS.requests, spans_of(["first", "second"], 1)),
    (METRICS.requests, points_of(["first", "second"], 1)),
    (remote_write.REQUESTS_V2, second(samples_request(["first", "second"], 1)).SerializeToString()),
]


class Failure(Exception):
    """Raised when something happened that must not; the text has the bytes that caused it."""


def main(seed: int, cases: int) -> None:
    # Refusals are logged, and here nearly everything is refused.
    logging.disable()
    chance = random.Random(seed)
    kinds = [*(signal.requests for signal in SIGNALS), PUSH, remote_write.requests(), remote_write.REQUESTS_V2]
    counts: Counter[str] = Counter()
    rounds = [partial(_round, kind, *_preparer(kind), _pool(chance, kind)) for kind in kinds]
    while counts["cases"] < cases:
        chance.choice(rounds)(chance, counts)
    print(json.dumps(counts))  # noqa: T201 - for the test


def _pool(chance: random.Random, kind: RequestKind) -> list[bytes]:
    """Returns odd messages, and messages that can be stored as they came, as most are."""
    odd = [build(chance, kind.message).SerializeToString() for _ in range(POOL)]
    return odd + [body for sender, body in PLAIN if sender is kind for _ in range(POOL)]


def _preparer(kind: RequestKind) -> tuple[RequestConverter]:
    config, clock = TelemetryConfig(), ManualClock()
    limits, metrics = TenantLimits(config, clock.monotonic), TelemetryMetrics(create_registry())
    return (RequestConverter(kind, config, limits, metrics, clock, 64 << 20),)


def _bodies(chance: random.Random, pool: list[bytes]) -> Iterator[bytes]:
    for _ in range(CONCURRENT_REQUESTS):
        mutate = message if chance.random() < 0.8 else damaged
        yield mutate(chance, chance.choice(pool), chance.choice(pool))


def _round(
    kind: RequestKind, converter: RequestConverter, pool: list[bytes], chance: random.Random, counts: Counter[str]
) -> None:
    """Decodes some damaged messages among valid ones."""
    bodies = [*_bodies(chance, pool), *chance.sample(pool, 3)]
    chance.shuffle(bodies)
    while bodies:
        done = converter.convert([TelemetryRequest(f"t{at % 3}", body) for at, body in enumerate(bodies)])
        for number, problem in done.problems.items():
            if not isinstance(problem, RequestError):
                raise Failure(f"{kind.topic}: {problem!r} for {bodies[number].hex()}")
            counts[f"refused: {' '.join(str(problem).split()[:5])}"] += 1
        for append in done.appends:
            rows = append.content if isinstance(append.content, pa.RecordBatch) else converter.rows_of(append.content)
            rows.validate(full=True)
            _check_made(kind, rows, bodies)
        counts["cases"] += done.taken
        counts["accepted"] += done.taken - len(done.problems)
        counts["stored as they came"] += sum(
            len(append.requests) for append in done.appends if isinstance(append.content, RawAppends)
        )
        bodies = bodies[done.taken :]


def _check_made(kind: RequestKind, rows: pa.RecordBatch, bodies: list[bytes]) -> None:
    """Checks that requests that are stored as they came can become rows later."""
    if ERROR in rows["attributes"].keys.to_pylist():
        raise Failure(f"{kind.topic}: no rows can be made of one of {[body.hex() for body in bodies]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
