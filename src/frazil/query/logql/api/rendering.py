"""Writes results of queries as Loki's JSON, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.logql.engine import InstantVector, RangeMatrix, Scalar
from frazil.query.logql.go_numbers import format_float
from frazil.query.logql.log_results import Entry, EntryLabels
from frazil.query.logql.metrics.matrix import Floats, SeriesLabels, printed_labels

Check = Callable[[], None]

_STREAMS_AT_ONCE = 64
_EXPONENT_OR_WORD = "[a-z]"
_FEW = 64
"""With fewer values, a Python loop is faster than starting the kernels."""


def seconds_text(time_ns: int) -> str:
    """Returns a time as Loki writes that of a sample: seconds, with milliseconds if there are any."""
    milliseconds = time_ns // 1_000_000
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def streams(entries: Iterable[Entry], *, categorized: bool) -> Iterator[bytes]:
    """Yields the list of streams. Categorized, a stream has its own labels only, and other labels are with the
    lines."""
    by_labels: dict[EntryLabels, SeriesLabels] = {}
    grouped: dict[SeriesLabels, list[list[Any]]] = {}
    extras: dict[EntryLabels, dict[str, dict[str, str]]] = {}
    for entry in entries:
        labels = entry.labels
        if labels not in by_labels:
            by_labels[labels] = tuple(sorted(labels.stream)) if categorized else labels.merged()
            extras[labels] = other_labels(labels)
        value: list[Any] = [str(entry.time_ns), entry.line]
        if categorized:
            value.append(extras[labels])
        grouped.setdefault(by_labels[labels], []).append(value)
    order = sorted(grouped, key=printed_labels)
    yield from _list(
        orjson.dumps(
            [{"stream": dict(labels), "values": grouped[labels]} for labels in order[at : at + _STREAMS_AT_ONCE]]
        )
        for at in range(0, len(order), _STREAMS_AT_ONCE)
    )


def other_labels(labels: EntryLabels) -> dict[str, dict[str, str]]:
    """Returns the labels of a line that are none of its stream."""
    found = {"structuredMetadata": dict(labels.metadata), "parsed": dict(labels.parsed)}
    return {name: values for name, values in found.items() if values}


def _list(lists: Iterable[bytes]) -> Iterator[bytes]:
    """Joins lists of JSON."""
    separator = b"["
    for each in lists:
        if len(each) > 2:
            yield separator + each[1:-1]
            separator = b","
    yield b"[]" if separator == b"[" else b"]"


def matrix(result: RangeMatrix, check: Check) -> Iterator[bytes]:
    """Yields the list of series, sorted by their labels."""
    found = result.matrix
    times = pa.array([f'[{seconds_text(int(step))},"' for step in result.steps], pa.string())
    order = sorted(range(len(found.series)), key=lambda row: printed_labels(found.series[row]))
    separator = b"["
    for row in order:
        check()
        steps = np.flatnonzero(found.present[row])
        metric = orjson.dumps(dict(found.series[row]))
        yield b'%b{"metric":%b,"values":[%b]}' % (separator, metric, _points(times, found.values[row], steps))
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def _points(times: pa.Array, values: Floats, steps: Any) -> bytes:
    texts = number_texts(values[steps])
    points = pc.binary_join_element_wise(times.take(pa.array(steps)), texts, '"]', "")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(points)], pa.int32()), points), ",")
    return joined[0].as_buffer().to_pybytes()  # type: ignore[no-any-return]


def number_texts(values: Floats) -> pa.Array:
    """Returns numbers as Loki writes them: the shortest text that reads back as the number, without an exponent."""
    if len(values) <= _FEW:
        return pa.array([format_float(value) for value in values.tolist()], pa.string())
    texts = pa.array(values).cast(pa.string())
    special = np.flatnonzero(np.asarray(pc.match_substring_regex(texts, _EXPONENT_OR_WORD)))
    if not len(special):
        return texts
    mask = np.zeros(len(values), np.bool_)
    mask[special] = True
    own = pa.array([format_float(value) for value in values[special].tolist()], pa.string())
    return pc.replace_with_mask(texts, pa.array(mask), own)


def vector(result: InstantVector) -> bytes:
    found = result.matrix
    rows: Sequence[int] = range(len(found.series))
    if not result.ordered:
        rows = sorted(rows, key=lambda row: printed_labels(found.series[row]))
    at = seconds_text(result.time_ns)
    return b"[%b]" % b",".join(
        sample(dict(found.series[row]), at, format_float(float(found.values[row, 0])))
        for row in rows
        if found.present[row, 0]
    )


def sample(labels: Mapping[str, str], at: str, value: str) -> bytes:
    return b'{"metric":%b,"value":[%b,"%b"]}' % (orjson.dumps(dict(labels)), at.encode(), value.encode())


def scalar(result: Scalar) -> bytes:
    return f'[{seconds_text(result.time_ns)},"{format_float(result.value)}"]'.encode()
