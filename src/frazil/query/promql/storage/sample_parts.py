"""Turns rows of a unit into samples of series: numbers as they are, histograms and summaries as their series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.query.promql.series.labels import Column, LabelTable
from frazil.query.promql.series.source import STALE
from frazil.query.promql.storage.arrow_columns import Ints, Mask, floats, ints, milliseconds, runs, valid
from frazil.query.promql.storage.unit_index import Shape, UnitIndex, label_bytes
from frazil.scan.interface import Unit

NAME = "__name__"


@dataclass(frozen=True)
class SamplePart:
    """Has samples of some series, one series after the other, by time."""

    labels: LabelTable
    kinds: npt.NDArray[np.int8]
    offsets: Ints
    times: Ints
    places: Ints
    """Where in the log each sample was: of two at one time the later one counts."""
    values: npt.NDArray[Any]
    starts: Ints | None = None
    shared: bool = False
    """Whether all but values and starts belongs to the index of the unit."""

    @property
    def nbytes(self) -> int:
        objects = 600 * len(self.values) if self.values.dtype == object else 0
        own = self.values.nbytes + objects + (0 if self.starts is None else self.starts.nbytes)
        if self.shared:
            return own
        return own + self.offsets.nbytes + self.times.nbytes + self.places.nbytes + label_bytes(self.labels)

    def take(self, series: Ints) -> SamplePart:
        if len(series) == self.labels.size and (series == np.arange(self.labels.size)).all():
            return self
        at, offsets = runs(self.offsets, series)
        starts = None if self.starts is None else self.starts[at]
        labels, kinds = self.labels.take(series), self.kinds[series]
        return SamplePart(labels, kinds, offsets, self.times[at], self.places[at], self.values[at], starts)

    def where(self, wanted: Mask) -> SamplePart:
        """Keeps some samples, and the series that have any left."""
        if wanted.all():
            return self
        kept = np.concatenate([[0], np.cumsum(wanted)])[self.offsets]
        starts = None if self.starts is None else self.starts[wanted]
        filled = np.flatnonzero(np.diff(kept))
        offsets = np.append(kept[filled], kept[-1])
        labels, kinds = self.labels.take(filled), self.kinds[filled]
        return SamplePart(
            labels, kinds, offsets, self.times[wanted], self.places[wanted], self.values[wanted], starts
        )


@dataclass(frozen=True)
class ShapedRows:
    """Has the rows of all series of one shape, with their values."""

    index: UnitIndex
    batch: pa.RecordBatch
    """The values of the rows, series by series."""
    part: SamplePart
    """The same series and times, with NaN as values: where no value was recorded that is the stale marker."""

    @property
    def stale(self) -> Mask:
        return np.asarray(np.ascontiguousarray(self.part.values).view(np.int64) == np.float64(STALE).view(np.int64))


def rows_of_shape(
    unit: Unit, index: UnitIndex, shape: Shape, columns: Sequence[str], known: Sequence[str]
) -> ShapedRows:
    part, rows = _rows_of_shape(index, shape)
    names = [name for name in (*columns, "flags", "start_timestamp") if name in known]
    batch = unit.read(names, filtered=False)
    if rows is not None:
        batch = batch.take(pa.array(rows))
    flags = ints(batch.column("flags")) & 1
    values = np.where(flags == 1, STALE, np.nan)
    began = batch.column("start_timestamp")
    starts = milliseconds(began) if began.null_count < len(began) else None
    return ShapedRows(index, batch, replace(part, values=values, starts=starts))


def _rows_of_shape(index: UnitIndex, shape: Shape) -> tuple[SamplePart, Ints | None]:
    """Returns the series of a shape without values, and their rows; None stands for all, as they stand."""
    of_shape = index.shapes == shape
    nothing = np.empty(0)
    if of_shape.all():
        whole = SamplePart(index.labels, index.kinds, index.offsets, index.times, index.places, nothing, shared=True)
        return whole, index.rows
    series = np.flatnonzero(of_shape)
    at, offsets = runs(index.offsets, series)
    labels, kinds = index.labels.take(series), index.kinds[series]
    part = SamplePart(labels, kinds, offsets, index.times[at], index.places[at], nothing)
    return part, at if index.rows is None else index.rows[at]


def read_numbers(unit: Unit, index: UnitIndex, known: Sequence[str]) -> SamplePart:
    """Returns the samples of gauges and sums. Rows that only carry exemplars have none."""
    rows = rows_of_shape(unit, index, Shape.NUMBER, ("value_double", "value_int"), known)
    doubles, whole = rows.batch.column("value_double"), rows.batch.column("value_int")
    values, there = floats(doubles), valid(doubles)
    if whole.null_count < len(whole):
        of_whole = valid(whole) & ~there
        values = np.where(of_whole, ints(whole).astype(np.float64), values)
        there = there | of_whole
    stale = rows.stale
    if stale.any():
        values = np.where(stale, STALE, values)
    return replace(rows.part, values=values).where(there | stale)


def with_name(labels: LabelTable, suffix: str, extra: dict[str, str] | None = None) -> LabelTable:
    """Returns labels with a suffix at the names, and with more labels."""
    names = labels.get(NAME)
    columns = dict(labels.columns)
    columns[NAME] = Column(names.codes, [name + suffix if name else name for name in names.values])
    ones = np.ones(labels.size, np.int32)
    columns |= {name: Column(ones, ["", text]) for name, text in (extra or {}).items() if text}
    return LabelTable(labels.size, columns)
