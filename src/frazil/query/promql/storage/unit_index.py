"""Finds out which series the rows of a unit belong to. Values are read later, and only those that are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.otlp.points import EXPONENTIAL, HISTOGRAM, KINDS, SUMMARY
from frazil.formats.remote_write.histograms import CUSTOM
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.storage.arrow_columns import (
    Ints,
    Mask,
    Words,
    ints,
    map_hashes,
    milliseconds,
    mixed,
    text_hashes,
    valid,
)
from frazil.query.promql.storage.series_labels import labels_of
from frazil.scan.interface import Unit

_OF_PARTITION = 1 << 44
"""A position in the log is one number: the partition, times so many, and the offset."""
_COLUMNS = (
    "prometheus_name",
    "metric_type",
    "aggregation_temporality",
    "metadata",
    "attributes",
    "resource_attributes",
    "timestamp",
    "scale",
    "tenant_id",
    PARTITION,
    OFFSET,
)


class Shape(IntEnum):
    """Says how rows become samples."""

    NUMBER = 0
    NATIVE = 1
    CLASSIC = 2
    SUMMARY = 3


@dataclass(frozen=True)
class LabelRules:
    """Says which labels series get besides their own."""

    promoted: tuple[str, ...] = ()
    """These attributes of the resource."""
    tenants: bool = False
    """Whether to tell the tenant, because there are several."""


@dataclass(frozen=True)
class UnitIndex:
    """Has the series of the rows of a unit. The rows of a series stand together, by time and place in the log."""

    labels: LabelTable
    """Those of histograms and summaries are without `le` and `quantile`, and without suffixes of the name."""
    shapes: npt.NDArray[np.int8]
    kinds: npt.NDArray[np.int8]
    """What OTLP called each series; 0 for those of remote write, where it is not part of the series."""
    rows: Ints | None
    """Which rows of the unit these are, or None if they are all, as they stand."""
    offsets: Ints
    """Where the rows of each series begin."""
    times: Ints
    """Milliseconds, of each row."""
    places: Ints
    """Where in the log each row was."""

    @property
    def nbytes(self) -> int:
        own = self.offsets.nbytes + self.times.nbytes + self.places.nbytes
        return own + (0 if self.rows is None else self.rows.nbytes) + label_bytes(self.labels)


def label_bytes(labels: LabelTable) -> int:
    return sum(4 * labels.size + 80 * len(column.values) for column in labels.columns.values())


def read_index(unit: Unit, rules: LabelRules, known: Sequence[str]) -> UnitIndex:
    """Reads the columns that say what series rows belong to; `known` names the columns of the topic."""
    rows = unit.read([name for name in _COLUMNS if name in known], filtered=False)
    return index_of(rows, rules)


def index_of(rows: pa.RecordBatch, rules: LabelRules) -> UnitIndex:
    names, foreign = rows.column("prometheus_name"), rows.column("metadata").is_null()
    kinds, shapes = _kinds(rows)
    identity = mixed(map_hashes(rows.column("attributes")), text_hashes(names))
    described = kinds.astype(np.uint64) * np.uint64(8) + shapes.astype(np.uint64)
    remote = np.asarray(foreign.to_numpy(zero_copy_only=False), bool)
    # In remote write the kind is what the sender said last, and no part of the series.
    described = np.where(remote, np.uint64(1 << 20) + shapes.astype(np.uint64), described)
    if not remote.all():
        identity = mixed(identity, map_hashes(rows.column("resource_attributes")))
        delta = np.asarray(pc.equal(rows.column("aggregation_temporality"), 1).fill_null(False).to_numpy(False))
        described = described + (delta & ~remote).astype(np.uint64) * np.uint64(1 << 24)
    identity = mixed(identity, described)
    if rules.tenants:
        identity = mixed(identity, text_hashes(rows.column("tenant_id")))
    series, firsts = _numbered(identity)
    times, places = milliseconds(rows.column("timestamp")), _places(rows)
    order = _order(series, times, places)
    counts = np.bincount(series, minlength=len(firsts)) if len(firsts) else np.empty(0, np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return UnitIndex(
        labels_of(rows.take(pa.array(firsts)), promoted=rules.promoted, tenants=rules.tenants),
        shapes[firsts],
        np.where(remote[firsts], 0, kinds[firsts] + 1).astype(np.int8),
        order,
        offsets,
        times if order is None else times[order],
        places if order is None else places[order],
    )


def _kinds(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Returns the index in `KINDS` of each row, and its shape."""
    kinds = pc.index_in(rows.column("metric_type"), pa.array(KINDS)).fill_null(0).to_numpy(False).astype(np.int8)
    shapes = np.zeros(len(kinds), np.int8)
    shapes[kinds == KINDS.index(EXPONENTIAL)] = Shape.NATIVE
    shapes[kinds == KINDS.index(SUMMARY)] = Shape.SUMMARY
    classic = kinds == KINDS.index(HISTOGRAM)
    if classic.any():
        custom = valid(rows.column("scale")) & (ints(rows.column("scale")) == CUSTOM)
        shapes[classic] = np.where(custom[classic], Shape.NATIVE, Shape.CLASSIC)
    return kinds, shapes


def _numbered(identity: Words) -> tuple[Ints, Ints]:
    """Returns a number for each row, equal where the identity is, and a row of each number."""
    if not len(identity):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    begins = np.flatnonzero(np.concatenate([[True], identity[1:] != identity[:-1]]))
    _, first, group = np.unique(identity[begins], return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    lengths = np.diff(np.append(begins, len(identity)))
    return np.repeat(ranks[group.reshape(-1)], lengths), begins[first[order]].astype(np.int64)


def _places(rows: pa.RecordBatch) -> Ints:
    names = rows.schema.names
    partitions = ints(rows.column(PARTITION)) if PARTITION in names else np.zeros(rows.num_rows, np.int64)
    offsets = ints(rows.column(OFFSET)) if OFFSET in names else np.arange(rows.num_rows)
    return np.asarray(partitions * _OF_PARTITION + offsets)


def _order(series: Ints, times: Ints, places: Ints) -> Ints | None:
    if _ascending(series, times, places):
        return None
    return np.lexsort((places, times, series))


def _ascending(series: Ints, times: Ints, places: Ints) -> bool:
    same: Mask = series[1:] == series[:-1]
    later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (places[1:] > places[:-1]))
    return bool(((series[1:] > series[:-1]) | (same & later)).all())
