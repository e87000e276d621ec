"""Turns requests of Prometheus's remote write 1.0 into rows of the table `metrics`: one for each sample and native
histogram.

Names and labels are Prometheus's own and stay as they are. In such rows `metadata` is null, which it never is in rows
from OTLP: so readers know which rules the names of the attributes follow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message
from opentelemetry.proto.metrics.v1.metrics_pb2 import DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

from frazil.formats.otlp.metrics import SCHEMA
from frazil.formats.remote_write.exemplars import Exemplars, SeriesTimes, exemplars_of, lists_of, sample_of_each
from frazil.formats.remote_write.families import Families
from frazil.formats.remote_write.histograms import STALE, histograms_of
from frazil.formats.remote_write.labels import Bools, LabelSets, label_sets, map_bytes
from frazil.formats.remote_write.messages import Histogram
from frazil.formats.telemetry.exemplars import EXEMPLARS
from frazil.formats.telemetry.fields import TIME
from frazil.formats.telemetry.lists import flat
from frazil.formats.telemetry.rows import ROW_BYTES, Arrival, Rejected, TelemetryRows, check_total
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.scopes import SERVICE_NAME, TENANT, Columns
from frazil.formats.telemetry.series import SharedLabels, series_ids

_MILLISECOND = 10**6
_LATEST = (2**63 - 1) // _MILLISECOND
_BEYOND = "a time that is not between the years 1678 and 2262"
UNFILLED = "a series without samples and histograms"
_KIND = ("metric_type", "is_monotonic", "aggregation_temporality")
"""The columns that histograms give themselves, and samples get from their family."""
_ROW_BYTES = {"samples": ROW_BYTES, "exemplars": ROW_BYTES, "histograms": 4000}
"""The approximate bytes of a row without its texts. Histograms are Python objects for a while."""


class _SeriesRows(NamedTuple):
    """Rows of samples, of histograms, or of exemplars without a sample."""

    columns: Columns
    """The columns that differ between rows of a series."""
    milliseconds: Ints
    starts: Ints
    """This says when they began to count, in milliseconds; 0 where that is unknown."""
    series: Ints


class _Rejections:
    """Counts the records that can never be stored, by request and reason."""

    def __init__(self) -> None:
        self._counts: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def add(self, requests: Ints, reason: str) -> None:
        for number, count in zip(*np.unique(requests, return_counts=True), strict=True):
            self._counts[int(number)][reason] += int(count)

    def all(self) -> dict[int, Rejected]:
        return {
            number: Rejected(reasons.total(), "; ".join(f"{reasons[each]} with {each}" for each in sorted(reasons)))
            for number, reasons in self._counts.items()
        }


class Series:
    """All series of some requests."""

    def __init__(
        self, decoded: pa.StructArray, requests: Ints, sets: LabelSets, kinds: Columns, histogram: type[Message]
    ) -> None:
        """`requests` has the request of each series, `kinds` the description of their metrics, and `histogram` is the
        message type of their histograms."""
        self.decoded = decoded
        self.requests = requests
        self.histogram = histogram
        everyone = np.arange(len(decoded))
        nobody = pa.nulls(len(decoded), pa.string())
        self.ids = series_ids(SharedLabels(sets.names, nobody, nobody), everyone, sets.attributes, translated=False)
        self.problems = sets.problems
        """The series whose records can never be stored, by reason."""
        self.exemplar_problems: dict[str, Bools] = {}
        """The exemplars that can never be stored, by reason, without those whose labels are invalid."""
        self.unfilled: Ints = requests[:0]
        """The requests of series without records, if these are errors."""
        self.kinds = {name: kinds[name] for name in _KIND}
        self.columns: Columns = {
            SERVICE_NAME: sets.jobs,
            "metric_name": sets.names,
            "prometheus_name": sets.names,
            "series_id": self.ids,
            "attributes": sets.attributes,
            **{name: kinds[name] for name in ("description", "unit")},
        }

    def text_bytes(self) -> Ints:
        """Returns the approximate bytes of text in each row of each series."""
        found = map_bytes(self.columns["attributes"])
        for name in ("metric_name", "prometheus_name", "description", "unit"):
            found += pc.binary_length(self.columns[name]).fill_null(0).to_numpy()
        return found


def to_rows(requests: pa.RecordBatch, arrival: Arrival, families: Families) -> TelemetryRows:
    """Turns the samples, histograms and exemplars of decoded requests into rows; `families` learns what the requests
    say about metrics."""
    families.learn(requests.column("metadata"), arrival.tenants)
    decoded, of_request = flat(requests.column("timeseries"))
    sets = label_sets(decoded.field("labels"))
    owners = pa.array(arrival.tenants, pa.string()).dictionary_encode()
    whose = owners.indices.to_numpy()[of_request].astype(np.int64)
    kinds = families.describe(sets.names, whose, owners.dictionary.to_pylist())
    return rows_of(Series(decoded, of_request, sets, kinds, Histogram), arrival)


def rows_of(series: Series, arrival: Arrival) -> TelemetryRows:
    _check_size(series)
    rejections = _Rejections()
    rejections.add(series.unfilled, UNFILLED)
    groups = [
        _without_rejected(group, series, rejections) for group in (_samples(series), _histograms(series, rejections))
    ]
    exemplars = exemplars_of(series.decoded.field("exemplars"))
    found, lists = _with_exemplars(groups, exemplars, series, rejections)
    of_series = np.concatenate([group.series for group in found])
    milliseconds, starts = (np.concatenate(each) for each in zip(*(group[1:3] for group in found), strict=True))
    numbers = series.requests[of_series]
    columns = {
        **_joined([group.columns for group in found], [len(group.series) for group in found]),
        **{name: _spread(column, of_series) for name, column in series.columns.items()},
        TENANT: arrival.tenants_of(numbers),
        "timestamp": pa.array(milliseconds * _MILLISECOND).view(TIME),
        "start_timestamp": pa.array(starts * _MILLISECOND, mask=starts == 0).view(TIME),
        "ingested_timestamp": arrival.times(len(numbers)),
        "exemplars": lists,
    }
    batch = pa.RecordBatch.from_arrays([_column(columns, field, len(numbers)) for field in SCHEMA], schema=SCHEMA)
    if (numbers[1:] < numbers[:-1]).any():
        order = np.argsort(numbers, kind="stable")
        batch, numbers = batch.take(pa.array(order)), numbers[order]
    return TelemetryRows(batch, numbers, rejected=rejections.all())


def _samples(series: Series) -> _SeriesRows:
    lists = series.decoded.field("samples")
    samples, owners = flat(lists)
    values = samples.field("value")
    stale = values.to_numpy().view(np.uint64) == np.uint64(STALE)
    columns = {
        **{name: _spread(series.kinds[name], owners) for name in _KIND},
        "value_double": values,
        "flags": pa.array(stale * np.int64(DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)),
    }
    milliseconds = samples.field("timestamp").to_numpy()
    has_starts = samples.type.get_field_index("start_timestamp") >= 0
    starts = samples.field("start_timestamp").to_numpy() if has_starts else np.zeros_like(milliseconds)
    return _SeriesRows(columns, milliseconds, starts, owners)


def _histograms(series: Series, rejections: _Rejections) -> _SeriesRows:
    found = histograms_of(series.decoded.field("histograms"), series.histogram)
    for reason, owners in found.rejected.items():
        rejections.add(series.requests[owners], reason)
    return _SeriesRows(found.columns, found.milliseconds, found.starts, found.series)


def _alone(exemplars: Exemplars, chosen: Bools, series: Series) -> _SeriesRows:
    """Returns rows without a value, for exemplars that came without a sample."""
    owners = exemplars.series[chosen]
    columns = {name: _spread(series.kinds[name], owners) for name in _KIND}
    columns["flags"] = pa.array(np.zeros(len(owners), np.int64))
    return _SeriesRows(columns, exemplars.milliseconds[chosen], np.zeros(len(owners), np.int64), owners)


def _with_exemplars(
    groups: list[_SeriesRows], exemplars: Exemplars, series: Series, rejections: _Rejections
) -> tuple[list[_SeriesRows], pa.ListArray]:
    """Returns the rows, with extra rows for exemplars that have no sample, and the exemplars of all rows."""
    rows = sum(len(group.series) for group in groups)
    if not len(exemplars.series):
        offsets = np.zeros(rows + 1, np.int32)
        return groups, pa.ListArray.from_arrays(pa.array(offsets), pa.array([], EXEMPLARS.value_type), EXEMPLARS)
    wrong = _reject(exemplars.series, (exemplars.milliseconds,), series, rejections)
    for reason, those in {**series.exemplar_problems, **exemplars.labels.problems()}.items():
        rejections.add(series.requests[exemplars.series[those & ~wrong]], f"an exemplar that has {reason}")
        wrong |= those
    good = np.flatnonzero(~wrong)
    ids = series.ids.to_numpy()
    samples = np.concatenate([group.series for group in groups])
    times = np.concatenate([group.milliseconds for group in groups]) * _MILLISECOND
    at = exemplars.milliseconds * _MILLISECOND
    of = exemplars.series[good]
    found = sample_of_each(
        SeriesTimes(series.requests[samples], ids[samples], times),
        SeriesTimes(series.requests[of], ids[of], at[good]),
    )
    alone = found < 0
    found[alone] = rows + np.arange(alone.sum())
    chosen = np.zeros(len(wrong), bool)
    chosen[good[alone]] = True
    groups = [*groups, _alone(exemplars, chosen, series)]
    structs = exemplars.structs(at).take(pa.array(good))
    return groups, lists_of(structs, found, rows + int(alone.sum()))


# --- what fits, and what does not ------------------------------------------------------------------------------


def _check_size(series: Series) -> None:
    texts = series.text_bytes()
    total = 0
    for name, nbytes in _ROW_BYTES.items():
        records = series.decoded.field(name).value_lengths().to_numpy()
        total += int((records * (nbytes + texts)).sum())
    check_total(total)


def _without_rejected(group: _SeriesRows, series: Series, rejections: _Rejections) -> _SeriesRows:
    """Returns the rows without those that can never be stored."""
    wrong = _reject(group.series, (group.milliseconds, group.starts), series, rejections)
    if not wrong.any():
        return group
    kept = pa.array(~wrong)
    columns = {name: column.filter(kept) for name, column in group.columns.items()}
    return _SeriesRows(columns, *(numbers[~wrong] for numbers in group[1:]))


def _reject(owners: Ints, times: tuple[Ints, ...], series: Series, rejections: _Rejections) -> Bools:
    """Returns which records of these series, at these times, can never be stored. Each is counted for one reason."""
    wrong = np.zeros(len(owners), bool)
    reasons = {reason: sets[owners] for reason, sets in series.problems.items()}
    reasons[_BEYOND] = np.logical_or.reduce([(each > _LATEST) | (each < -_LATEST) for each in times])
    for reason, those in reasons.items():
        fresh = those & ~wrong
        if fresh.any():
            rejections.add(series.requests[owners[fresh]], reason)
            wrong |= fresh
    return wrong


# --- columns ---------------------------------------------------------------------------------------------------


def _spread(column: pa.Array, places: Ints) -> pa.Array:
    """Repeats a column's values for the rows of each series. Most series come with one sample, so this is mostly the
    column itself."""
    if len(places) == len(column) and (places == np.arange(len(column))).all():
        return column
    return column.take(pa.array(places))


def _joined(groups: list[Columns], lengths: list[int]) -> Columns:
    """Concatenates the columns of all kinds of rows; they are null in those that do not have them."""
    filled = [(group, length) for group, length in zip(groups, lengths, strict=True) if length]
    names = dict.fromkeys(name for group, _ in filled for name in group)
    return {
        name: _concatenated([_column(group, SCHEMA.field(name), length) for group, length in filled])
        for name in names
    }


def _concatenated(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _column(columns: Columns, field: pa.Field, length: int) -> pa.Array:
    return columns[field.name] if field.name in columns else pa.nulls(length, field.type)
