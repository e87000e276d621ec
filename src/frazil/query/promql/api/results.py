"""Renders what queries give as JSON, series by series, while it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.promql.api.number_texts import number_text, number_texts, time_text, time_texts
from frazil.query.promql.engine.query import Answer
from frazil.query.promql.engine.raw import RangeVector
from frazil.query.promql.evaluation.matrix import Matrix
from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.series.source import Samples, Times
from frazil.query.promql.storage.arrow_columns import Floats, Ints

_POINTS = 200_000
"""About so many points are rendered at a time."""
_SERIES = 100
_LOW_OPEN, _HIGH_OPEN, _CLOSED = 0, 1, 3


def result(answer: Answer, ranged: bool, limit: int) -> tuple[Iterator[bytes], bool]:
    """Returns the result as JSON, with its type, and whether the limit left series out."""
    if answer.text is not None:
        moment = time_text(int(answer.times[0]))
        return iter([b'{"resultType":"string","result":[%s,%s]' % (moment.encode(), dumped(answer.text))]), False
    if answer.scalar is not None and not ranged:
        moment, value = time_text(int(answer.times[0])), number_text(float(answer.scalar[0]))
        return iter([f'{{"resultType":"scalar","result":[{moment},"{value}"]'.encode()]), False
    if answer.ranges is not None:
        kept, cut = _limited(answer.ranges.labels.size, limit)
        return _listed("matrix", _raw(answer.ranges, kept)), cut
    matrix = answer.matrix
    if matrix is None:
        assert answer.scalar is not None
        values = answer.scalar[None, :]
        matrix = Matrix(LabelTable(1, {}), values, np.ones(values.shape, bool))
    kept, cut = _limited(matrix.size, limit)
    matrix = matrix.take(np.arange(kept)) if cut else matrix
    if ranged:
        return _listed("matrix", _series(matrix, answer.times)), cut
    return _listed("vector", _vector(matrix, int(answer.times[0]))), cut


def _limited(size: int, limit: int) -> tuple[int, bool]:
    return (limit, True) if 0 < limit < size else (size, False)


def _listed(kind: str, items: Iterator[bytes]) -> Iterator[bytes]:
    yield f'{{"resultType":"{kind}","result":['.encode()
    first = True
    for item in items:
        if not first:
            yield b","
        first = False
        yield item
    yield b"]"


def dumped(value: Any) -> bytes:
    """Returns JSON. Bytes that are no text are shown as the character for that."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_readable(value))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {_readable(key): _readable(each) for key, each in value.items()}
    return [_readable(each) for each in value] if isinstance(value, list) else value


def metrics(labels: LabelTable) -> list[bytes]:
    return [dumped(row) for row in labels.rows()]


def _vector(matrix: Matrix, time_ms: int) -> Iterator[bytes]:
    moment = time_text(time_ms).encode()
    texts = number_texts(matrix.values[:, 0]).to_pylist()
    histograms = matrix.histograms[:, 0]
    rows: list[bytes] = []
    for at, metric in enumerate(metrics(matrix.labels)):
        if histograms[at]:
            assert matrix.cells is not None
            shown = dumped(histogram(matrix.cells[at, 0]))
            rows.append(b'{"metric":%s,"histogram":[%s,%s]}' % (metric, moment, shown))
        elif matrix.present[at, 0]:
            rows.append(b'{"metric":%s,"value":[%s,"%s"]}' % (metric, moment, texts[at].encode()))
        if len(rows) >= 1000:
            yield b",".join(rows)
            rows = []
    if rows:
        yield b",".join(rows)


def _series(matrix: Matrix, times: Times) -> Iterator[bytes]:
    prefixes = time_prefixes(times)
    names = metrics(matrix.labels)
    chunk = max(1, _POINTS // max(1, matrix.steps))
    for first in range(0, matrix.size, chunk):
        rows = slice(first, min(first + chunk, matrix.size))
        joined = points(matrix.values[rows], matrix.present[rows], prefixes)
        found = []
        for number, text in enumerate(joined, first):
            shown = _histogram_points(matrix, number, times)
            if text or shown:
                found.append(_one(names[number], text, shown))
        if found:
            yield b",".join(found)


def points(values: Any, present: Any, prefixes: pa.Array) -> list[bytes]:
    """Returns for each series its points as JSON, with commas between."""
    at = np.broadcast_to(np.arange(present.shape[1]), present.shape)[present]
    return joined_points(values[present], at, prefixes, np.cumsum(present.sum(axis=1)))


def joined_points(values: Floats, at: Ints, prefixes: pa.Array, ends: Ints) -> list[bytes]:
    """Returns the points up to each of `ends`; `at` has the prefix of each."""
    texts = pc.binary_join_element_wise(prefixes.take(pa.array(at)), number_texts(values), '"]', "")
    lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]).astype(np.int32)), texts)
    return list(pc.binary_join(lists, ",").cast(pa.binary()).to_pylist())


def time_prefixes(times: Times) -> pa.Array:
    return pa.array(["[" + text + ',"' for text in time_texts(times)], pa.string())


def _histogram_points(matrix: Matrix, row: int, times: Times) -> bytes:
    if matrix.cells is None:
        return b""
    at = np.flatnonzero(matrix.histograms[row]).tolist()
    return b",".join(
        b"[%s,%s]" % (time_text(int(times[each])).encode(), dumped(histogram(matrix.cells[row, each]))) for each in at
    )


def _one(metric: bytes, values: bytes, histograms: bytes) -> bytes:
    found = b'{"metric":%s' % metric
    if values:
        found += b',"values":[%s]' % values
    if histograms:
        found += b',"histograms":[%s]' % histograms
    return found + b"}"


def _raw(ranges: RangeVector, count: int) -> Iterator[bytes]:
    names = metrics(ranges.labels)
    for first in range(0, count, _SERIES):
        rows = range(first, min(first + _SERIES, count))
        floats = [ranges.floats[row] for row in rows]
        times, at = np.unique(np.concatenate([each.times for each in floats]), return_inverse=True)
        values = np.concatenate([np.asarray(each.values, np.float64).reshape(-1) for each in floats])
        ends = np.cumsum([len(each.times) for each in floats])
        texts = joined_points(values, at.reshape(-1), time_prefixes(times), ends)
        for row, text in zip(rows, texts, strict=True):
            yield _one(names[row], text, _raw_histograms(ranges.histograms[row]))


def _raw_histograms(samples: Samples) -> bytes:
    return b",".join(
        b"[%s,%s]" % (time_text(time).encode(), dumped(histogram(value)))
        for time, value in zip(samples.times.tolist(), samples.values.reshape(-1), strict=True)
    )


def histogram(value: Histogram) -> dict[str, Any]:
    """Returns a native histogram as the API shows it."""
    found: dict[str, Any] = {"count": number_text(value.count), "sum": number_text(value.sum)}
    buckets = value.buckets
    shown: list[Sequence[Any]] = []
    for at in np.flatnonzero(buckets.counts != 0).tolist():
        low, high, side = float(buckets.lower[at]), float(buckets.upper[at]), int(buckets.side[at])
        edge = _LOW_OPEN if side > 0 else _HIGH_OPEN if side < 0 else _CLOSED
        if low == -np.inf:
            edge = _CLOSED
        shown.append([edge, number_text(low), number_text(high), number_text(float(buckets.counts[at]))])
    return {**found, "buckets": shown} if shown else found
