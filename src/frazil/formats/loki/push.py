"""Turns the entries of Loki's streams into rows of the table `logs`.

The labels of a stream become the attributes of a resource, and structured metadata those of the record. Service,
level and trace, if they are among them, are also stored in the columns that OpenTelemetry has for these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.loki.labels import LEVEL_LABELS, LabelsError, StreamLabels, parse
from frazil.formats.otlp.logs import INGEST_PROTOCOL, SCHEMA
from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.fields import SPAN_ID, TRACE_ID, Ids, ids, is_zero, times
from frazil.formats.telemetry.lists import flat
from frazil.formats.telemetry.log_levels import DETECTED_LEVEL, LevelEvidence, detected_levels
from frazil.formats.telemetry.rows import ROW_BYTES, Arrival, Rejected, TelemetryRows, check_total, requests_with
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.scopes import SERVICE_NAME, TENANT, Columns, attribute_columns

_PROTOCOL = "loki"
_SEVERITIES = {
    **dict.fromkeys(("trace", "trc"), 1),
    **dict.fromkeys(("debug", "dbg"), 5),
    **dict.fromkeys(("info", "inf", "information", "informational", "notice"), 9),
    **dict.fromkeys(("warn", "wrn", "warning"), 13),
    **dict.fromkeys(("error", "err", "eror"), 17),
    **dict.fromkeys(("fatal", "critical", "crit", "alert", "emerg", "emergency", "panic"), 21),
}
"""OpenTelemetry's severity numbers by the names that are used for levels."""
_SEVERITY_NAMES = pa.array(list(_SEVERITIES))
_SEVERITY_NUMBERS = pa.array(list(_SEVERITIES.values()), pa.int32())


class _Streams(NamedTuple):
    """The streams whose labels can be parsed."""

    streams: pa.StructArray
    requests: Ints
    """The number of the request of each stream."""
    labels: list[StreamLabels]
    codes: pa.Array
    """This says which of `labels` each stream has."""
    rejected: dict[int, Rejected]
    """The entries of the other streams, by request."""


def to_rows(requests: pa.RecordBatch, arrival: Arrival) -> TelemetryRows:
    """Turns the entries of decoded requests into rows."""
    found = _streams(requests)
    lists = found.streams.field("entries")
    _check_size(found.streams, lists)
    entries, stream_at = flat(lists)
    of_request = found.requests[stream_at]
    nanoseconds = _nanoseconds(entries.field("timestamp"))
    metadata = _metadata(entries.field("structured_metadata"))
    codes = found.codes.take(pa.array(stream_at))
    of_stream = {name: column.take(codes) for name, column in _of_labels(found.labels).items()}
    level = pc.coalesce(of_stream["level"], _lookup(metadata.maps, LEVEL_LABELS), pa.scalar(""))
    trace_ids = _hex_ids(_lookup(metadata.maps, ("trace_id",)), TRACE_ID)
    span_ids = _hex_ids(_lookup(metadata.maps, ("span_id",)), SPAN_ID)
    lines = _texts(entries.field("line"))
    columns = {
        **_defaults(len(entries)),
        **{name: of_stream[name] for name in (SERVICE_NAME, "resource_attributes")},
        TENANT: arrival.tenants_of(of_request),
        "timestamp": times(nanoseconds, arrival.time_ns),
        "ingested_timestamp": arrival.times(len(entries)),
        "trace_id": trace_ids.column,
        "span_id": span_ids.column,
        "severity_number": _severity_numbers(level),
        "severity_text": level,
        "body": lines,
        **attribute_columns("attributes", metadata),
        INGEST_PROTOCOL: pa.repeat(_PROTOCOL, len(entries)),
        DETECTED_LEVEL: detected_levels(LevelEvidence(lines, [metadata], labels=of_stream[DETECTED_LEVEL])),
    }
    batch = pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
    timeless = requests_with(is_zero(nanoseconds), of_request)
    return TelemetryRows(batch, of_request, trace_ids.invalid + span_ids.invalid, timeless, found.rejected)


# --- streams ---------------------------------------------------------------------------------------------------


def _streams(requests: pa.RecordBatch) -> _Streams:
    lists = requests.column("streams")
    streams, of_request = flat(lists)
    texts = _texts(streams.field("labels")).dictionary_encode()
    labels: list[StreamLabels] = []
    problems: dict[int, str] = {}
    places = np.full(len(texts.dictionary), -1, np.int32)
    for number, text in enumerate(texts.dictionary.to_pylist()):
        try:
            labels.append(parse(text))
            places[number] = len(labels) - 1
        except LabelsError as error:
            problems[number] = str(error)
    codes = pa.array(places).take(texts.indices)
    if not problems:
        return _Streams(streams, of_request, labels, codes, {})
    good = pc.greater_equal(codes, 0)
    bad = np.flatnonzero(~np.asarray(good))
    counts = streams.field("entries").value_lengths().to_numpy()[bad]
    requests_at, firsts = np.unique(of_request[bad], return_index=True)
    totals = np.add.reduceat(counts, firsts)
    rejected: dict[int, Rejected] = {}
    for number, first, total in zip(requests_at.tolist(), bad[firsts].tolist(), totals.tolist(), strict=True):
        place = first - int(np.searchsorted(of_request, number))
        rejected[number] = Rejected(total, f"streams[{place}]: {problems[texts.indices[first].as_py()]}")
    return _Streams(streams.filter(good), of_request[np.asarray(good)], labels, codes.filter(good), rejected)


def _check_size(streams: pa.StructArray, entries: pa.ListArray) -> None:
    sizes = pc.binary_length(streams.field("labels")).to_numpy().astype(np.int64) + ROW_BYTES
    check_total(int(sizes.dot(entries.value_lengths().to_numpy())))


def _of_labels(labels: list[StreamLabels]) -> Columns:
    """Returns the columns that come from the labels, one row for each set of labels."""
    return {
        SERVICE_NAME: pa.array([each.service for each in labels], pa.string()),
        "level": pa.array([each.level for each in labels], pa.string()),
        DETECTED_LEVEL: pa.array([each.detected_level for each in labels], pa.string()),
        "resource_attributes": pa.array([each.pairs for each in labels], attributes.MAP),
    }


# --- entries ---------------------------------------------------------------------------------------------------


def _defaults(rows: int) -> Columns:
    """Returns all columns as an OTLP record has them that has only a resource."""
    columns = {field.name: pa.nulls(rows, field.type) for field in SCHEMA}
    for name in ("event_name", "resource_schema_url", "scope_schema_url"):
        columns[name] = pa.repeat("", rows)
    for name in ("flags", "dropped_attributes_count", "resource_dropped_attributes_count"):
        columns[name] = pa.repeat(pa.scalar(0, pa.int64()), rows)
    none, refs = pa.array(np.zeros(rows + 1, np.int32)), SCHEMA.field("resource_entity_refs").type
    columns["resource_entity_refs"] = pa.ListArray.from_arrays(none, pa.array([], refs.value_type), refs)
    return columns


def _texts(column: pa.Array) -> pa.Array:
    """Decodes bytes as text. Invalid UTF-8 becomes the replacement character."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode("utf-8", "replace") for each in column.to_pylist()], pa.string())


def _nanoseconds(stamps: pa.StructArray) -> pa.Array:
    """Returns the nanoseconds since 1970; 0 where there is no time, or one out of range."""
    seconds, nanos = (column.fill_null(0).to_numpy() for column in stamps.flatten())
    valid = (seconds >= 0) & (seconds < 2**63 // 10**9) & (nanos >= 0) & (nanos < 10**9)
    return pa.array(np.where(valid, seconds, 0) * 10**9 + np.where(valid, nanos, 0), pa.uint64())


def _metadata(lists: pa.ListArray) -> attributes.Attributes:
    pairs = lists.flatten()
    return attributes.of_texts(lists, _texts(pairs.field("name")), _texts(pairs.field("value")))


def _lookup(maps: pa.MapArray, names: tuple[str, ...]) -> pa.Array:
    """Returns for each map the value of the first of these names that has one; null where none has."""
    ranks = pc.index_in(maps.keys, pa.array(names))
    matches = np.flatnonzero(np.asarray(pc.and_(ranks.is_valid(), pc.not_equal(maps.items, ""))))
    if not len(matches):
        return pa.nulls(len(maps), pa.string())
    rows = np.searchsorted(maps.offsets.to_numpy(), matches, "right") - 1
    order = np.lexsort((ranks.take(pa.array(matches)).to_numpy(), rows))
    _, first = np.unique(rows[order], return_index=True)
    places: Ints = np.full(len(maps), -1, np.int64)
    places[rows[order][first]] = matches[order][first]
    return maps.items.take(pa.array(places, mask=places < 0))


def _severity_numbers(levels: pa.Array) -> pa.Array:
    """Returns the severity numbers of levels, 0 for unknown ones."""
    return _SEVERITY_NUMBERS.take(pc.index_in(pc.utf8_lower(levels), _SEVERITY_NAMES)).fill_null(0)


def _hex_ids(texts: pa.Array, kind: pa.DataType) -> Ids:
    if texts.null_count == len(texts):
        return Ids(pa.nulls(len(texts), kind), 0)
    decoded = pl.Series(texts).str.decode("hex", strict=False).to_arrow().cast(pa.binary())
    # A text that is not hexadecimal becomes one byte, which is counted as an invalid id.
    return ids(pc.if_else(texts.is_valid(), decoded.fill_null(b"?"), b""), kind)
