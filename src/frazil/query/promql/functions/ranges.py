"""Evaluates functions over ranges: floats all at once, histograms window by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation, Steps
from frazil.query.promql.evaluation.matrix import Cells, Floats, Mask, Matrix, empty_cells
from frazil.query.promql.evaluation.selecting import CHUNK, Ranges, live
from frazil.query.promql.functions.mixed import mixed_changes, mixed_first, mixed_instant
from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.parse.tree import Call, Node
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.series.source import Samples, SeriesBlock
from frazil.query.promql.windows import dense_rates, extended, histograms, overtime, rates, trends
from frazil.query.promql.windows.edges import Windows, edges, windows_of
from frazil.query.promql.windows.rates import Result

FloatKernel = Callable[[Windows], Result]
HistogramKernel = Callable[[histograms.Window, histograms.Notes], Histogram | None]
ENDS = frozenset(["first_over_time", "last_over_time", "ts_of_first_over_time", "ts_of_last_over_time"])
COUNTER_ENDINGS = ("_total", "_sum", "_count", "_bucket")
RATES = {"rate": (True, True), "increase": (True, False), "delta": (False, False)}
INSTANT_RATES = {"irate": True, "idelta": False}
# Functions that leave histograms out, and say so where floats stand among them.
FLOATS_ONLY = frozenset(
    [
        *("min_over_time", "max_over_time", "ts_of_min_over_time", "ts_of_max_over_time"),
        *("stddev_over_time", "stdvar_over_time", "quantile_over_time", "mad_over_time"),
        *("deriv", "predict_linear", "double_exponential_smoothing"),
    ]
)
SIMPLE: dict[str, FloatKernel] = {
    "sum_over_time": overtime.sum_over,
    "avg_over_time": overtime.mean_over,
    "min_over_time": overtime.least_over,
    "max_over_time": overtime.greatest_over,
    "stddev_over_time": overtime.deviation_over,
    "stdvar_over_time": overtime.variance_over,
    "mad_over_time": overtime.median_deviation_over,
    "ts_of_min_over_time": lambda windows: overtime.time_of_extreme(windows, False),
    "ts_of_max_over_time": lambda windows: overtime.time_of_extreme(windows, True),
    "deriv": trends.slopes,
    "resets": rates.resets,
    "changes": rates.changes,
    "irate": lambda windows: rates.instant(windows, True),
    "idelta": lambda windows: rates.instant(windows, False),
}


@dataclass(frozen=True)
class RangeCall:
    """Is one call of a function over ranges, with its scalar arguments."""

    evaluation: Evaluation
    node: Call
    argument: Node
    """The range; annotations about it have its position."""
    steps: Steps
    ranges: Ranges
    scalars: list[Floats]

    @property
    def name(self) -> str:
        return self.node.function

    @property
    def reaches(self) -> bool:
        selector = self.ranges.selector
        return selector is not None and (selector.anchored or selector.smoothed)

    @property
    def smoothed(self) -> bool:
        return self.ranges.selector is not None and self.ranges.selector.smoothed

    def float_kernel(self) -> FloatKernel:
        """Returns what computes the function for floats."""
        name, range_ms = self.name, self.ranges.range_ms
        if name in RATES:
            counter, per_second = RATES[name]
            if self.reaches:
                return lambda w: extended.growth(w, range_ms, self.smoothed, counter, per_second)
            return lambda w: rates.extrapolated(w, counter, per_second)
        if name in ("resets", "changes") and self.reaches:
            return lambda w: extended.anchored_count(w, range_ms, name == "resets")
        if name == "quantile_over_time":
            return lambda w: overtime.quantile_over(w, self.scalars[0])
        if name == "predict_linear":
            return lambda w: trends.predictions(w, self.steps.times, self.scalars[0])
        if name == "double_exponential_smoothing":
            return lambda w: trends.smoothed(w, self.scalars[0], self.scalars[1])
        return SIMPLE[name]

    def windows(self, samples: Samples) -> Windows:
        """Returns the windows of the steps; of extended ranges with the samples that they reach for."""
        samples = live(samples)
        ends, range_ms = self.ranges.ends, self.ranges.range_ms
        if not self.reaches:
            return windows_of(samples, ends, range_ms)
        lookback = self.evaluation.options.lookback_ms
        lo = edges(samples, ends - range_ms - lookback)
        hi = edges(samples, ends + (lookback if self.smoothed else 0))
        return Windows(samples, ends, range_ms, lo, hi)


def evaluate_block(call: RangeCall, block: SeriesBlock) -> Matrix:
    """Returns the values of the function for the series of one block."""
    steps = call.steps.count
    if block.histograms is None:
        return float_matrix(call, block)
    if call.name in ENDS:
        return mixed_first(block, call.windows(block.floats), call.windows(block.histograms), call.name)
    if call.name in ("count_over_time", "present_over_time"):
        counts = call.windows(block.floats).widths + call.windows(block.histograms).widths
        counts = np.broadcast_to(counts, (block.labels.size, steps))
        values = counts.astype(np.float64) if call.name == "count_over_time" else np.ones(counts.shape)
        return Matrix(block.labels, values, counts > 0)
    if call.name in ("changes", "resets"):
        begins = call.ranges.ends - call.ranges.range_ms if call.reaches else None
        return mixed_changes(
            block, call.windows(block.floats), call.windows(block.histograms), call.name == "resets", begins
        )
    return combined(call, block, block.histograms)


def float_matrix(call: RangeCall, block: SeriesBlock) -> Matrix:
    """Computes the function for series of floats, some series at a time."""
    if call.name in ENDS:
        kernel: FloatKernel = {
            "first_over_time": overtime.first_over,
            "last_over_time": overtime.last_over,
            "ts_of_first_over_time": overtime.time_of_first,
            "ts_of_last_over_time": overtime.time_of_last,
        }[call.name]
    elif call.name in ("count_over_time", "present_over_time"):
        kernel = overtime.count_over if call.name == "count_over_time" else overtime.present_over
    else:
        kernel = call.float_kernel()
    size, steps = block.labels.size, call.steps.count
    call.evaluation.bound(size, steps)
    values, present = np.empty((size, steps)), np.empty((size, steps), bool)
    for first in range(0, size, CHUNK):
        last = min(first + CHUNK, size)
        windows = call.windows(block.floats.part(first, last))
        found = kernel(windows)
        values[first:last], present[first:last] = found.values, found.present
        note_overlaps(call, block.labels, windows, first)
        call.evaluation.check()
    call.evaluation.hold(int(present.sum()))
    return Matrix(block.labels, values, present)


def note_overlaps(call: RangeCall, labels: LabelTable, windows: Windows, first: int) -> None:
    """Warns of counters that began before their last sample."""
    if windows.samples.starts is None or call.name not in ("rate", "increase") or call.reaches:
        return
    marks = rates.overlaps(windows.samples)
    if not marks.any():
        return
    names = labels.get("__name__")
    counts = rates.count_between(marks, windows)
    for row, times in enumerate((counts > 0).sum(axis=1)):
        for _ in range(int(times)):
            call.evaluation.annotations.overlap(names.values[names.codes[first + row]], call.argument)


def combined(call: RangeCall, block: SeriesBlock, samples: Samples) -> Matrix:
    """Computes the function for floats and for histograms, and lets the rules of mixing decide."""
    names = block.labels.get("__name__").strings()
    windows, cell_windows = call.windows(block.floats), call.windows(samples)
    shape = (block.labels.size, call.steps.count)
    have_floats = np.broadcast_to(windows.widths > 0, shape)
    have_cells = np.broadcast_to(cell_windows.widths > 0, shape)
    both = have_floats & have_cells
    if call.name in INSTANT_RATES:
        return mixed_instant(call.evaluation, call.node, block, windows, cell_windows, INSTANT_RATES[call.name])
    kernel = call.float_kernel()
    with np.errstate(all="ignore"):
        found = kernel(windows)
    present = found.present & ~(have_cells & ~have_floats)
    if call.name in FLOATS_ONLY:
        # The place of this info is the first argument, even where that is a scalar.
        place = call.node.arguments[0]
        for row in np.flatnonzero(both.any(axis=1)):
            call.evaluation.info(
                f'ignored histograms in a range containing both floats and histograms for metric name "{names[row]}"',
                place,
            )
        return Matrix(block.labels, found.values, present)
    for row in np.flatnonzero(both.any(axis=1)):
        call.evaluation.warn(
            f'encountered a mix of histograms and floats for metric name "{names[row]}"', call.argument
        )
    cells = histogram_cells(call, cell_windows, have_cells & ~have_floats, names)
    return Matrix(block.labels, found.values, present & ~both, cells)


def histogram_cells(call: RangeCall, windows: Windows, wanted: Mask, names: list[str]) -> Cells:
    """Computes the function for the windows that have histograms only."""
    kernel = histogram_kernel(call)
    cells = empty_cells(windows.shape)
    samples = windows.samples
    for row in np.flatnonzero(wanted.any(axis=1)):
        notes = histograms.Notes(
            lambda text: call.evaluation.warn(text, call.argument),
            lambda text: call.evaluation.info(text, call.argument),
            names[row],
        )
        call.evaluation.check()
        at_once = dense_cells(call, windows, int(row))
        if at_once is not None:
            cells[row, wanted[row]] = at_once[wanted[row]]
            continue
        for step in np.flatnonzero(wanted[row]):
            part = slice(int(windows.lo[row, step]), int(windows.hi[row, step]))
            starts = None if samples.starts is None else samples.starts[part].tolist()
            end = int(windows.ends[step])
            window = histograms.Window(
                samples.values[part].tolist(), samples.times[part].tolist(), starts, end - windows.range_ms, end
            )
            if window.overlaps() and call.name in ("rate", "increase") and not call.reaches:
                call.evaluation.annotations.overlap(names[row], call.argument)
            cells[row, step] = kernel(window, notes)
    return cells


def dense_cells(call: RangeCall, windows: Windows, row: int) -> Cells | None:
    """Computes the rates of a series whose histograms are alike; None if they are not, or it is no rate."""
    samples = windows.samples
    assert samples.offsets is not None
    if call.name not in ("rate", "increase") or call.reaches or samples.starts is not None:
        return None
    begin, end = int(windows.lo[row].min()), int(windows.hi[row].max())
    dense = dense_rates.lay_out(samples.values[begin:end].tolist())
    if dense is None:
        return None
    found = empty_cells((len(windows.ends),))
    found[:] = dense_rates.rates(
        dense,
        samples.times[begin:end],
        windows.lo[row] - begin,
        windows.hi[row] - begin,
        windows.ends,
        windows.range_ms,
        call.name == "rate",
    )
    return found


def histogram_kernel(call: RangeCall) -> HistogramKernel:
    name, range_ms = call.name, call.ranges.range_ms
    if name in RATES:
        counter, per_second = RATES[name]
        if call.reaches:
            return lambda w, n: histograms.extended(w, range_ms, call.smoothed, counter, per_second, n)
        return lambda w, n: histograms.extrapolated(w, counter, per_second, n)
    return lambda w, n: histograms.total(w, n, mean=name == "avg_over_time")


def note_gauges(call: RangeCall, matrix: Matrix) -> None:
    """Says where `rate` is asked of what seems to be no counter."""
    if call.name not in ("rate", "increase") or not matrix.size:
        return
    rows = np.flatnonzero(matrix.present.any(axis=1))
    by_type = call.evaluation.options.type_and_unit_labels
    column = matrix.labels.get("__type__" if by_type else "__name__")
    names = matrix.labels.get("__name__")
    for name_code, code in sorted(set(zip(names.codes[rows].tolist(), column.codes[rows].tolist(), strict=True))):
        name, text = names.values[name_code], column.values[code]
        if by_type:
            if name and text not in ("counter", "histogram"):
                call.evaluation.info(
                    'metric might not be a counter, __type__ label is not set to "counter" or "histogram", '
                    f'got "{text}": "{name}"',
                    call.argument,
                )
        elif name and not name.endswith(COUNTER_ENDINGS):
            call.evaluation.info(
                f'metric might not be a counter, name does not end in {"/".join(COUNTER_ENDINGS)}: "{name}"',
                call.argument,
            )
