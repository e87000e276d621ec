"""What tests beside this share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from frazil.formats.loki import push as loki
from frazil.formats.loki.labels import labels_text
from frazil.formats.loki.messages import PushRequest
from frazil.formats.otlp import logs
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.row_messages import Row, plain_rows
from frazil.formats.telemetry.rows import Arrival, TelemetryRows

NOW = 1_700_000_000_123_456_789


LATEST = 2**63 // 10**9 * 10**9 - 1


texts = st.text(st.characters(codec="utf-8"), max_size=8)


lines = texts | st.sampled_from(["level", "trace_id", "span_id", "severity", "error", "\0"])


metadata = st.lists(st.tuples(lines, lines), max_size=4)


entries = st.tuples(st.integers(1, LATEST), lines, metadata)


streams = st.tuples(st.dictionaries(texts.filter(bool), lines, max_size=3), st.lists(entries, max_size=3))


requests = st.lists(streams, max_size=3)


def message(*given: tuple[Any, list[tuple[int, Any, Any]]]) -> bytes:
    """Returns a push request. Labels are a mapping, or the text that is sent for them."""
    made = PushRequest()
    for labels, of_stream in given:
        stream = made.streams.add(labels=_bytes(labels if isinstance(labels, str | bytes) else labels_text(labels)))
        for time, line, pairs in of_stream:
            entry = stream.entries.add(line=_bytes(line))
            if time:
                entry.timestamp.seconds, entry.timestamp.nanos = divmod(time, 10**9)
            for name, value in pairs.items() if isinstance(pairs, dict) else pairs:
                entry.structured_metadata.add(name=_bytes(name), value=_bytes(value))
    serialized: bytes = made.SerializeToString()
    return serialized


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def rows_of(*bodies: bytes) -> TelemetryRows:
    for body in bodies:
        check(PushRequest, body)
    tenants = [f"tenant-{number}" for number in range(len(bodies))]
    rows = loki.to_rows(decode(PushRequest, bodies), Arrival(tenants, NOW))
    rows.batch.validate(full=True)
    assert rows.batch.schema == logs.SCHEMA
    return rows


def plain(rows: TelemetryRows) -> list[Row]:
    return list(plain_rows(pa.Table.from_batches([rows.batch])))
