"""Makes log records as the doors make them: six hours, fifty services, half of the lines JSON."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.otlp.logs import OTLP
from frazil.log.schema.columns import OFFSET, PARTITION

Numbers = npt.NDArray[np.int64]

START_NS = 1_700_006_400_000_000_000
"""It is the beginning of a day, so that all records are in one partition of the table."""
END_NS = START_NS + 6 * 3_600_000_000_000
TENANT_NAME = "default"
SERVICES = [f"service-{number:02d}" for number in range(50)]
_LEVELS = np.array(["debug", "info", "info", "info", "info", "info", "info", "warn", "warn", "error"])
_SEVERITIES = {"debug": 5, "info": 9, "warn": 13, "error": 17}
_ROUTES = [f"/api/v1/things/{number}" for number in range(40)]
_PODS = 4
_AT_ONCE = 250_000


def records(wanted: Numbers, count: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields these of so many records, as rows of the table with these columns."""
    for start in range(0, len(wanted), _AT_ONCE):
        numbers = wanted[start : start + _AT_ONCE]
        made = _columns(numbers, (END_NS - START_NS) // count)
        columns = [
            made[field.name].cast(field.type) if field.name in made else pa.nulls(len(numbers), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def services_of(numbers: Numbers) -> Numbers:
    return (numbers * 7919) % len(SERVICES)


def _columns(numbers: Numbers, step_ns: int) -> dict[str, pa.Array]:
    chance = np.random.default_rng(int(numbers[0]))
    count = len(numbers)
    services = _texts(SERVICES, services_of(numbers))
    pods = pc.binary_join_element_wise(services, _texts("0123", chance.integers(0, _PODS, count)), "-pod-")
    levels = pa.array(_LEVELS[chance.integers(0, len(_LEVELS), count)])
    numbers_of_levels = pa.array(list(_SEVERITIES.values())).take(pc.index_in(levels, pa.array(list(_SEVERITIES))))
    routes = _texts(_ROUTES, np.minimum(chance.geometric(0.1, count) - 1, len(_ROUTES) - 1))
    users = pc.binary_join_element_wise("user", pa.array(chance.integers(0, 5000, count)).cast(pa.string()), "-")
    times = START_NS + numbers * step_ns
    return {
        "tenant_id": pa.repeat(TENANT_NAME, count),
        "service_name": services,
        "timestamp": pa.array(times // 1000),
        "timestamp_ns": pa.array(times % 1000),
        "observed_timestamp": pa.array(times // 1000),
        "observed_timestamp_ns": pa.array(times % 1000),
        "ingested_timestamp": pa.array(times // 1000),
        "ingested_timestamp_ns": pa.array(times % 1000),
        "trace_id": pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(chance.bytes(16 * count))]),
        "severity_number": numbers_of_levels,
        "severity_text": levels,
        "detected_level": levels,
        "body": _lines(chance, numbers, levels),
        "attributes": _maps({"http.route": routes, "user.id": users}, count),
        "resource_attributes": _maps({"service.name": services, "k8s.pod.name": pods}, count),
        "scope_attributes": _maps({}, count),
        "scope_name": pa.repeat("bench", count),
        "ingest_protocol": pa.repeat(OTLP, count),
        PARTITION: pa.repeat(0, count),
        OFFSET: pa.array(numbers),
    }


def _lines(chance: np.random.Generator, numbers: Numbers, levels: pa.Array) -> pa.Array:
    """Makes lines in words and in JSON by turns."""
    names = pa.array(numbers).cast(pa.string())
    took = pa.array(chance.integers(1, 3000, len(numbers))).cast(pa.string())
    status = pa.array(np.array(["200", "404", "500"])[chance.choice(3, len(numbers), p=(0.9, 0.08, 0.02))])
    words = pc.binary_join_element_wise("order ", names, " took ", took, " ms, status ", status, "")
    objects = pc.binary_join_element_wise(
        '{"level":"', levels, '","order":', names, ',"status":', status, ',"took_ms":', took, "}", ""
    )
    return pc.if_else(pa.array(numbers % 2 == 0), words, objects)


def _texts(values: list[str] | str, codes: Numbers) -> pa.Array:
    return pa.array(list(values)).take(pa.array(codes))


def _maps(columns: dict[str, pa.Array], count: int) -> pa.MapArray:
    """Makes maps with the same keys."""
    width = len(columns)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    if not width:
        return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))
    keys = pa.array(list(columns)).take(pa.array(np.tile(np.arange(width), count)))
    order = np.arange(count * width).reshape(width, count).T.ravel()
    return pa.MapArray.from_arrays(offsets, keys, pa.concat_arrays(columns.values()).take(pa.array(order)))
