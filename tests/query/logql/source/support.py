"""Makes rows as the doors make them, for the source of LogQL."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from frazil.formats.otlp import logs
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.rows import Arrival
from frazil.log.schema.columns import OFFSET, PARTITION

NOW = 1_700_000_000_123_456_789


def otlp_rows(*requests: ExportLogsServiceRequest, tenant: str = "default") -> pa.Table:
    decoded = decode(ExportLogsServiceRequest, [request.SerializeToString() for request in requests])
    return placed(logs.to_rows(decoded, Arrival([tenant] * len(requests), NOW)).batch)


def placed(*batches: pa.RecordBatch) -> pa.Table:
    """Makes rows of the table: times are cut to microseconds, with the rest beside them, and have places."""
    table = pa.Table.from_batches(batches)
    for name in ("timestamp", "observed_timestamp"):
        times = table[name].cast(pa.int64())
        whole = pc.divide(times, 1000)
        rest = pc.subtract(times, pc.multiply(whole, 1000)).cast(pa.int32())
        kind = pa.timestamp("us", "UTC")
        table = table.set_column(table.schema.get_field_index(name), name, whole.cast(kind))
        table = table.append_column(f"{name}_ns", rest)
    count = len(table)
    return table.append_column(PARTITION, pa.array([0] * count)).append_column(OFFSET, pa.array(range(count)))
