"""Measures what it costs to detect the levels of log records while they become rows, by what tells the level."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, LogRecord

from bench import otlp_messages
from bench.figures import AtLeast, Bench, Figure, Round, figure
from bench.otlp_messages import bodies
from frazil.formats.otlp import logs
from frazil.formats.telemetry.attributes import Attributes
from frazil.formats.telemetry.log_levels import LevelEvidence, detected_levels
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.rows import Arrival

RECORDS = 1000
WITHOUT = "the same rows without levels"

GiveLevel = Callable[[LogRecord, int], None]
"""Gives a record, which has no severity, something that tells its level. The number differs for each record."""


def _severity(record: LogRecord, _: int) -> None:
    record.severity_number, record.severity_text = SEVERITY_NUMBER_INFO, "INFO"


def _attribute(record: LogRecord, _: int) -> None:
    record.attributes.add(key="level").value.string_value = "info"


def _line(text: str) -> GiveLevel:
    def give_level(record: LogRecord, number: int) -> None:
        record.body.string_value = text.replace("#", str(number))

    return give_level


LEVEL_EVIDENCE: dict[str, tuple[GiveLevel, AtLeast | None]] = {
    "severity": (_severity, AtLeast(0.85)),
    "an attribute": (_attribute, None),
    "words of the line": (
        _line("2024-05-05 10:10:10.123 [main] INFO com.example.OrderService - order # was stored for customer 5512"),
        None,
    ),
    "logfmt": (
        _line('ts=2024-05-05T10:10:10.123Z caller=main.go:55 level=info msg="order stored" order=# took=35ms'),
        None,
    ),
    "JSON": (
        _line('{"ts":"2024-05-05T10:10:10.123Z","level":"info","msg":"order stored","order":#,"took":35}'),
        None,
    ),
}


def levels(bench: Bench) -> Iterator[Figure]:
    """Turns requests of 1,000 log records into rows. Seconds are those of processor time."""
    (sample,) = bodies(otlp_messages.logs(), 1, RECORDS)
    for name, (give_level, target) in LEVEL_EVIDENCE.items():
        body = _with_levels(sample, give_level)
        rounds = [_round(body) for _ in range(bench.rounds * 4)]
        yield figure(f"log records become rows, level from {name}", "records/s", rounds, WITHOUT, target)


def _with_levels(sample: bytes, give_level: GiveLevel) -> bytes:
    request = ExportLogsServiceRequest.FromString(sample)
    for number, record in enumerate(request.resource_logs[0].scope_logs[0].log_records):
        record.ClearField("severity_number")
        record.ClearField("severity_text")
        give_level(record, number)
    serialized: bytes = request.SerializeToString()
    return serialized


def _round(body: bytes) -> Round:
    """Measures the detection a second time by itself, to know the time without it."""
    started = time.process_time()
    rows = logs.to_rows(decode(logs.REQUEST, [body]), Arrival(["bench"], 1)).batch
    made = time.process_time()
    detected_levels(_evidence(rows))
    detected = time.process_time()
    return Round(len(rows) / (made - started), len(rows) / (2 * made - started - detected))


def _evidence(rows: pa.RecordBatch) -> LevelEvidence:
    return LevelEvidence(
        rows["body"],
        [Attributes(rows["attributes"], rows["attributes_types"])],
        severity_texts=rows["severity_text"],
        severity_numbers=rows["severity_number"],
    )
