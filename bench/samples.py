"""Makes rows like those of the doors, from a seed."""

from __future__ import annotations

import random

import pyarrow as pa

START_US = 1_700_000_000_000_000
WORDS = (
    *("GET", "POST", "/api/v1/orders", "/health", "timeout", "connection", "reset", "upstream", "ok", "failed"),
    *("retry", "cache", "miss", "payment", "user", "session", "expired", "token", "refreshed", "after", "before"),
    *("while", "waiting", "for", "response", "from"),
)
SERVICES = ["checkout", "cart", "frontend", "payments", "shipping", "recommendation"]
LEVELS = ["DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR"]


def one_kib(rng: random.Random) -> pa.RecordBatch:
    """Returns one record of 1 KiB."""
    return pa.record_batch({"value": pa.array([rng.randbytes(1024)], pa.binary())})


def logs(rows: int, rng: random.Random) -> pa.RecordBatch:
    """Returns log lines with attributes in a map, about 190 bytes a row."""
    attributes = [
        [("host", f"node-{rng.randrange(50)}"), ("trace", f"{rng.getrandbits(64):016x}"), ("region", "eu-west-1")]
        for _ in range(rows)
    ]
    return pa.record_batch(
        {
            "time": _times(rows, rng),
            "service": pa.array(rng.choices(SERVICES, k=rows)),
            "level": pa.array(rng.choices(LEVELS, k=rows)),
            "message": pa.array([" ".join(rng.choices(WORDS, k=12)) for _ in range(rows)]),
            "status": pa.array(rng.choices([200, 200, 200, 404, 500], k=rows), pa.int32()),
            "attributes": pa.array(attributes, pa.map_(pa.string(), pa.string())),
        }
    )


def flat(rows: int, rng: random.Random) -> pa.RecordBatch:
    """Returns raw messages as from Kafka: key, value and a little about them, about 250 bytes a row."""
    return pa.record_batch(
        {
            "time": _times(rows, rng),
            "key": pa.array([f"user-{rng.randrange(100_000)}".encode() for _ in range(rows)], pa.binary()),
            "value": pa.array([rng.randbytes(200) for _ in range(rows)], pa.binary()),
            "source_offset": pa.array(range(rows), pa.int64()),
        }
    )


def spans(rows: int, rng: random.Random) -> pa.RecordBatch:
    """Returns spans with a struct, about 130 bytes a row."""
    status = [{"code": rng.randrange(3), "message": rng.choice(["", "", "deadline exceeded"])} for _ in range(rows)]
    return pa.record_batch(
        {
            "trace": pa.array([rng.randbytes(16) for _ in range(rows)], pa.binary(16)),
            "span": pa.array([rng.randbytes(8) for _ in range(rows)], pa.binary(8)),
            "parent": pa.array([rng.randbytes(8) if rng.random() < 0.9 else None for _ in range(rows)], pa.binary(8)),
            "name": pa.array([f"{rng.choice(WORDS)} {rng.choice(WORDS)}" for _ in range(rows)]),
            "service": pa.array(rng.choices(SERVICES, k=rows)),
            "start": _times(rows, rng),
            "duration_ns": pa.array([rng.randrange(10**9) for _ in range(rows)], pa.int64()),
            "status": pa.array(status, pa.struct([("code", pa.int32()), ("message", pa.string())])),
        }
    )


def _times(rows: int, rng: random.Random) -> pa.Array:
    now = START_US
    times = []
    for _ in range(rows):
        now += rng.randrange(300)
        times.append(now)
    return pa.array(times, pa.timestamp("us"))
