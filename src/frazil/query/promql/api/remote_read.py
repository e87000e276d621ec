"""Answers remote read, by which a Prometheus reads samples through Frazil."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError, RequestError
from frazil.query.promql.api.checksums import crc32c
from frazil.query.promql.api.envelope import gathered
from frazil.query.promql.api.read_messages import (
    SAMPLES,
    STREAMED_XOR_CHUNKS,
    ChunkedReadResponse,
    ReadRequest,
    ReadResponse,
)
from frazil.query.promql.api.settings import samples_of
from frazil.query.promql.api.xor_chunks import MOST_SAMPLES, xor_chunk
from frazil.query.promql.histograms.histogram import Buckets, Histogram
from frazil.query.promql.parse.regex import regex_problem
from frazil.query.promql.parse.tree import Matcher, MatchOp
from frazil.query.promql.series.labels import concatenate
from frazil.query.promql.series.source import Hints, Samples, SeriesBlock

_OPERATORS: tuple[MatchOp, ...] = ("=", "!=", "=~", "!~")
_MOST_BYTES = 1 << 26
_SNAPPY_GROWTH = 64
"""A byte of Snappy stands for so many bytes at most."""
_FRAME_BYTES = 1 << 20
_PLAIN = {"content-type": "text/plain; charset=utf-8"}
_XOR = 1
_STREAMED = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"


def read(request: QueryRequest, context: QueryContext) -> Reply:
    try:
        asked = _decoded(request.body)
        streamed = _wants_chunks(asked.accepted_response_types)
        found = [_blocks(query, request, context) for query in asked.queries]
        if streamed and not _has_histograms(found):
            return Reply(200, {"content-type": _STREAMED}, gathered(_frames(found, context)))
        if streamed and SAMPLES not in asked.accepted_response_types:
            raise RequestError("native histograms are sent as samples only, which the request does not accept")
        return _as_samples(found, context)
    except (QueryError, RequestError) as error:
        return Reply(400, _PLAIN, [f"{error}\n".encode()])


def _decoded(body: bytes) -> Any:
    size, shift = 0, 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if not body or size > min(_MOST_BYTES, _SNAPPY_GROWTH * len(body)):
        raise RequestError("snappy: corrupt input")
    try:
        return ReadRequest.FromString(pa.decompress(body, size, "snappy", asbytes=True) if size else b"")
    except (pa.ArrowException, OSError):
        raise RequestError("snappy: corrupt input") from None
    except DecodeError as error:
        raise RequestError(f"proto: {error}") from None


def _wants_chunks(accepted: Sequence[int]) -> bool:
    """Returns whether the first type that is known is that of chunks."""
    for each in accepted:
        if each in (SAMPLES, STREAMED_XOR_CHUNKS):
            return each == STREAMED_XOR_CHUNKS
    if accepted:
        types = " ".join(map(str, accepted))
        raise RequestError(
            f"server does not support any of the requested response types: [{types}]; "
            f"supported: map[SAMPLES:{{}} STREAMED_XOR_CHUNKS:{{}}]"
        )
    return False


def _blocks(query: Any, request: QueryRequest, context: QueryContext) -> Sequence[SeriesBlock]:
    matchers = []
    for each in query.matchers:
        if not 0 <= each.type < len(_OPERATORS):
            raise RequestError(f"invalid matcher type {each.type}")
        operator = _OPERATORS[each.type]
        if operator in ("=~", "!~") and (problem := regex_problem(each.value)):
            raise RequestError(problem)
        matchers.append(Matcher(each.name, operator, each.value))
    start, end = query.start_timestamp_ms, query.end_timestamp_ms
    return samples_of(request, context).select(matchers, start, end, Hints(start, end))


def _has_histograms(found: Sequence[Sequence[SeriesBlock]]) -> bool:
    return any(block.histograms is not None for blocks in found for block in blocks)


def _series(blocks: Sequence[SeriesBlock]) -> Iterator[tuple[dict[str, str], Samples, Samples | None]]:
    """Yields the series in the order of their labels, each with its samples."""
    if not blocks:
        return
    parts = [(block, row) for block in blocks for row in range(block.labels.size)]
    for at in np.asarray(concatenate([block.labels for block in blocks]).order()).tolist():
        block, row = parts[at]
        histograms = None if block.histograms is None else block.histograms.part(row, row + 1)
        yield block.labels.row(row), block.floats.part(row, row + 1), histograms


def _frames(found: Sequence[Sequence[SeriesBlock]], context: QueryContext) -> Iterator[bytes]:
    for number, blocks in enumerate(found):
        for labels, floats, _ in _series(blocks):
            context.check()
            message = _labelled(number, labels)
            times, values = floats.times, np.asarray(floats.values, np.float64).reshape(-1)
            size = 0
            for first in range(0, len(times), MOST_SAMPLES):
                part = slice(first, first + MOST_SAMPLES)
                data = xor_chunk(times[part], values[part])
                message.chunked_series[0].chunks.add(
                    min_time_ms=int(times[part][0]), max_time_ms=int(times[part][-1]), type=_XOR, data=data
                )
                size += len(data)
                if size >= _FRAME_BYTES:
                    yield _frame(message)
                    message, size = _labelled(number, labels), 0
            if size:
                yield _frame(message)


def _labelled(number: int, labels: dict[str, str]) -> Any:
    message: Any = ChunkedReadResponse(query_index=number)
    _label(message.chunked_series.add(), labels)
    return message


def _label(series: Any, labels: dict[str, str]) -> None:
    for name, value in labels.items():
        series.labels.add(name=name, value=value)


def _frame(message: Message) -> bytes:
    payload: bytes = message.SerializeToString()
    length, size = bytearray(), len(payload)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes(length) + crc32c(payload).to_bytes(4, "big") + payload


def _as_samples(found: Sequence[Sequence[SeriesBlock]], context: QueryContext) -> Reply:
    response: Any = ReadResponse()
    for blocks in found:
        result = response.results.add()
        for labels, floats, histograms in _series(blocks):
            context.check()
            series = result.timeseries.add()
            _label(series, labels)
            for time, value in zip(floats.times.tolist(), floats.values.reshape(-1).tolist(), strict=True):
                series.samples.add(timestamp=time, value=value)
            if histograms is not None:
                for time, each in zip(histograms.times.tolist(), histograms.values.reshape(-1), strict=True):
                    _fill(series.histograms.add(timestamp=time), each)
    body = pa.compress(response.SerializeToString(), "snappy", asbytes=True)
    headers = {"content-type": "application/x-protobuf", "content-encoding": "snappy"}
    return Reply(200, headers, [body])


def _fill(message: Any, histogram: Histogram) -> None:
    message.count_float, message.sum = histogram.count, histogram.sum
    message.schema, message.zero_threshold = histogram.schema, histogram.zero_threshold
    message.zero_count_float, message.reset_hint = histogram.zero_count, int(histogram.hint)
    message.custom_values.extend(histogram.bounds)
    for side, buckets in (("positive", histogram.positive), ("negative", histogram.negative)):
        getattr(message, f"{side}_counts").extend(buckets.counts.tolist())
        for offset, length in _spans(buckets):
            getattr(message, f"{side}_spans").add(offset=offset, length=length)


def _spans(buckets: Buckets) -> Iterator[tuple[int, int]]:
    """Yields runs of buckets: how far each is behind the one before it, and how many it has."""
    behind, indexes = 0, buckets.indexes
    for run in np.split(indexes, np.flatnonzero(np.diff(indexes) != 1) + 1):
        if len(run):
            yield int(run[0]) - behind, len(run)
            behind = int(run[-1]) + 1
