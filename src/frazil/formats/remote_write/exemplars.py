"""Attaches the exemplars of a Prometheus series, which come beside its samples, to single samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.remote_write.labels import Bools, SeriesLabels, labels_of
from frazil.formats.telemetry.exemplars import EXEMPLARS
from frazil.formats.telemetry.runs import Ints

_TRACE, _SPAN = "trace_id", "span_id"


class Exemplars(NamedTuple):
    labels: SeriesLabels
    values: pa.Array
    milliseconds: Ints
    series: Ints
    """The index of the series of each exemplar."""

    def structs(self, nanoseconds: Ints) -> pa.StructArray:
        """Returns the exemplars as structs, with these times."""
        traces, spans = self.labels.places(_TRACE), self.labels.places(_SPAN)
        trace_ids, span_ids = _bytes(self.labels.text(traces)), _bytes(self.labels.text(spans))
        others = np.ones(len(self.labels.codes), bool)
        # A label that is not a hexadecimal id stays a label.
        others[traces[np.asarray(trace_ids.is_valid())]] = False
        others[spans[np.asarray(span_ids.is_valid())]] = False
        columns = {
            "time_unix_nano": pa.array(nanoseconds),
            "value_double": self.values,
            "value_int": pa.nulls(len(self.values), pa.int64()),
            "span_id": span_ids.fill_null(b""),
            "trace_id": trace_ids.fill_null(b""),
            "attributes": self.labels.maps(others),
            "attributes_types": pa.nulls(len(self.values), pa.string()),
        }
        fields = list(EXEMPLARS.value_type)
        return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)


def exemplars_of(lists: pa.ListArray) -> Exemplars:
    """Returns the exemplars of decoded lists of `Exemplar`, one list for each series."""
    found = lists.flatten()
    return Exemplars(
        labels_of(found.field("labels")),
        found.field("value"),
        found.field("timestamp").to_numpy(),
        pc.list_parent_indices(lists).to_numpy(),
    )


class SeriesTimes(NamedTuple):
    """The request, series id and time of samples or exemplars."""

    requests: Ints
    ids: Ints
    times: Ints

    def take(self, places: Ints | Bools) -> SeriesTimes:
        return SeriesTimes(*(column[places] for column in self))


def sample_of_each(samples: SeriesTimes, exemplars: SeriesTimes) -> Ints:
    """Returns the index of the sample that each exemplar belongs to: the last one of its series that is not later,
    else the first one; -1 if its series has no sample in its request."""
    count = len(samples.times)
    both = [np.concatenate(columns) for columns in zip(samples, exemplars, strict=True)]
    guests = np.arange(len(both[0])) >= count
    order = np.lexsort((guests, both[2], both[1], both[0]))
    requests, ids, guests = both[0][order], both[1][order], guests[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (requests[1:] != requests[:-1]) | (ids[1:] != ids[:-1])
    group = np.cumsum(begins) - 1
    places = np.where(guests, -1, np.arange(len(order)))
    before = np.maximum.accumulate(places)
    start = np.flatnonzero(begins)[group]
    # Exemplars that are earlier than all samples belong to the first one of their group.
    firsts = np.full(len(order) and group[-1] + 1, -1, np.int64)
    at = np.flatnonzero(~guests)[::-1]
    firsts[group[at]] = at
    chosen = np.where(before >= start, before, firsts[group])
    found = np.empty(len(order), np.int64)
    found[order] = np.where(chosen >= 0, order[chosen], -1)
    return found[count:]


def lists_of(structs: pa.StructArray, rows: Ints, count: int) -> pa.ListArray:
    """Returns the exemplars of each of `count` rows; `rows` has the row of each exemplar."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    items = structs.take(pa.array(np.argsort(rows, kind="stable")))
    return pa.ListArray.from_arrays(pa.array(offsets), items, EXEMPLARS)


def _bytes(texts: pa.Array) -> pa.Array:
    """Decodes hexadecimal texts in lower case; null for others, which could not be written again exactly."""
    column = pl.Series(texts)
    column = pl.select(pl.when(column.str.contains("^[0-9a-f]*$")).then(column)).to_series()
    return column.str.decode("hex", strict=False).to_arrow().cast(pa.binary())
