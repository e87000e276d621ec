"""Turns requests of Prometheus's remote write 2.0 into rows of the table `metrics`.

Texts are in a symbol table, and labels refer to it. Series are translated to those of 1.0 (`v1`) once it is known
that they fit into memory. Kind, help and unit of a metric, which 1.0 sends in requests of their own, come with each
series here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from frazil.errors import RequestError
from frazil.formats.remote_write.families import kinds_of
from frazil.formats.remote_write.labels import Bools, label_sets
from frazil.formats.remote_write.messages import HistogramV2
from frazil.formats.remote_write.v1 import UNFILLED, Series, rows_of
from frazil.formats.telemetry.lists import flat, lengths, offsets_of
from frazil.formats.telemetry.rows import Arrival, TelemetryRows, check_total
from frazil.formats.telemetry.runs import Ints

ODD = "references to labels that are no pairs"
BEYOND = "references to symbols that are not in the table"
_LABEL_BYTES = 48
"""The approximate bytes of a reference, beside its text, until it is part of a row."""


class _Symbols(NamedTuple):
    """The symbol tables of all requests, one after the other."""

    texts: pa.Array
    sizes: Ints
    starts: Ints
    """This says where the table of each request begins."""
    counts: Ints

    @classmethod
    def of(cls, lists: pa.ListArray) -> _Symbols:
        texts, _ = flat(lists)
        ends = offsets_of(lists)
        ends -= ends[0]
        found = cls(texts, lengths(texts), ends[:-1], np.diff(ends))
        if found.sizes[found.starts[found.counts > 0]].any():
            raise RequestError("The first symbol is not empty, which it must be in remote write 2.0.")
        return found


class _References(NamedTuple):
    """References of series or exemplars to symbols of their requests. A series with an invalid reference has none
    here."""

    places: Ints
    """The positions among all symbols."""
    counts: Ints
    """The number of references of each series or exemplar."""
    odd: Bools
    beyond: Bools

    @classmethod
    def of(cls, lists: pa.ListArray, requests: Ints, symbols: _Symbols) -> _References:
        """Resolves lists of references; `requests` has the request of each list."""
        found, owners = flat(lists)
        check_total(_LABEL_BYTES * len(found))
        numbers = found.to_numpy().astype(np.int64)
        of_request = requests[owners]
        counts = np.bincount(owners, minlength=len(lists))
        odd = counts % 2 > 0
        beyond = np.zeros(len(lists), bool)
        beyond[owners[numbers >= symbols.counts[of_request]]] = True
        right = ~(odd | beyond)
        places = (symbols.starts[of_request] + numbers)[right[owners]]
        return cls(places, np.where(right, counts, 0), odd, beyond)

    def nbytes(self, symbols: _Symbols) -> int:
        """Returns the approximate bytes of the texts."""
        return int(symbols.sizes[self.places].sum()) + _LABEL_BYTES * len(self.places)

    def labels(self, symbols: _Symbols) -> pa.ListArray:
        """Returns the labels as lists of pairs, as 1.0 has them."""
        pairs = [symbols.texts.take(pa.array(self.places[first::2])) for first in (0, 1)]
        offsets = np.zeros(len(self.counts) + 1, np.int32)
        np.cumsum(self.counts // 2, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(pairs, ("name", "value")))


class _OptionalSymbols(NamedTuple):
    """One optional reference per series; 0 means that there is none."""

    places: Ints
    absent: Bools
    beyond: Bools

    @classmethod
    def of(cls, numbers: Ints, requests: Ints, symbols: _Symbols) -> _OptionalSymbols:
        beyond = numbers >= symbols.counts[requests]
        absent = beyond | (numbers == 0)
        return cls(np.where(absent, 0, symbols.starts[requests] + numbers), absent, beyond)

    def nbytes(self, symbols: _Symbols) -> int:
        return int(symbols.sizes[self.places[~self.absent]].sum())

    def column(self, symbols: _Symbols) -> pa.Array:
        return symbols.texts.take(pa.array(self.places, mask=self.absent))


def to_rows(requests: pa.RecordBatch, arrival: Arrival) -> TelemetryRows:
    """Turns the samples, histograms and exemplars of decoded requests into rows."""
    symbols = _Symbols.of(requests.column("symbols"))
    decoded, of_request = flat(requests.column("timeseries"))
    lists = decoded.field("exemplars")
    exemplars, owners = flat(lists)
    labels = _References.of(decoded.field("labels_refs"), of_request, symbols)
    of_exemplars = _References.of(exemplars.field("labels_refs"), of_request[owners], symbols)
    kinds, *references = (
        column.fill_null(0).to_numpy().astype(np.int64) for column in decoded.field("metadata").flatten()
    )
    description, unit = (_OptionalSymbols.of(numbers, of_request, symbols) for numbers in references)
    check_total(sum(each.nbytes(symbols) for each in (labels, of_exemplars, description, unit)))
    as_first = {
        "labels": labels.labels(symbols),
        "samples": decoded.field("samples"),
        "exemplars": _exemplars(lists, exemplars, of_exemplars.labels(symbols)),
        "histograms": decoded.field("histograms"),
    }
    unfilled = ~np.logical_or(*(_any(as_first[name]) for name in ("samples", "histograms")))
    sets = label_sets(as_first["labels"])
    problems = {ODD: labels.odd, BEYOND: labels.beyond | description.beyond | unit.beyond, UNFILLED: unfilled}
    series = Series(
        pa.StructArray.from_arrays(as_first.values(), as_first),
        of_request,
        sets._replace(problems={**problems, **sets.problems}),
        {
            "description": description.column(symbols),
            "unit": unit.column(symbols),
            **kinds_of(sets.names, kinds),
        },
        HistogramV2,
    )
    series.exemplar_problems = {ODD: of_exemplars.odd, BEYOND: of_exemplars.beyond}
    series.unfilled = of_request[unfilled & ~_any(lists)]
    return rows_of(series, arrival)


def _exemplars(lists: pa.ListArray, found: pa.StructArray, labels: pa.ListArray) -> pa.ListArray:
    ends = offsets_of(lists)
    columns = {"labels": labels, **{name: found.field(name) for name in ("value", "timestamp")}}
    structs = pa.StructArray.from_arrays(columns.values(), columns)
    return pa.ListArray.from_arrays(pa.array((ends - ends[0]).astype(np.int32)), structs)


def _any(lists: pa.ListArray) -> Bools:
    """Returns which lists are not empty."""
    found: Bools = np.diff(offsets_of(lists)) > 0
    return found
