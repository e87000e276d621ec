"""Evaluates functions that look at neighbours in time, for series that have floats and histograms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation
from frazil.query.promql.evaluation.matrix import Matrix, empty_cells
from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.histograms.resets import is_reset
from frazil.query.promql.parse.tree import Call
from frazil.query.promql.series.source import SeriesBlock, Times
from frazil.query.promql.windows import histograms
from frazil.query.promql.windows.edges import Windows
from frazil.query.promql.windows.rates import instant

Sample = tuple[int, float | Histogram, int]


def samples_of(floats: Windows, cells: Windows, row: int, step: int) -> list[Sample]:
    """Returns the samples of one window by time: time, value, start time."""
    found: list[Sample] = []
    for windows in (floats, cells):
        lo = int(np.broadcast_to(windows.lo, windows.shape)[row, step])
        hi = int(np.broadcast_to(windows.hi, windows.shape)[row, step])
        samples = windows.samples
        values = samples.values if samples.offsets is not None else samples.values[row]
        starts = samples.starts if samples.starts is None or samples.offsets is not None else samples.starts[row]
        for at in range(lo, hi):
            found.append((int(samples.times[at]), values[at], 0 if starts is None else int(starts[at])))
    return sorted(found, key=lambda sample: sample[0])


def mixed_first(block: SeriesBlock, floats: Windows, cells: Windows, name: str) -> Matrix:
    """Returns the oldest or newest sample of each window, or its time, whatever its type."""
    oldest = "first" in name
    float_at, cell_at = (floats.lo, cells.lo) if oldest else (floats.hi - 1, cells.hi - 1)
    float_times = np.broadcast_to(floats.times(float_at), floats.shape)
    cell_times = np.broadcast_to(cells.times(cell_at), cells.shape)
    have_floats, have_cells = floats.filled, cells.filled
    earlier = float_times < cell_times
    take_float = have_floats & (~have_cells | (earlier if oldest else ~earlier & (float_times != cell_times)))
    take_cell = have_cells & ~take_float
    if name.startswith("ts_of_"):
        times = np.where(take_float, float_times, cell_times) / 1000
        return Matrix(block.labels, times, take_float | take_cell)
    found = empty_cells(cells.shape)
    found[take_cell] = np.broadcast_to(cells.values(cell_at), cells.shape)[take_cell]
    values = np.array(np.broadcast_to(floats.values(float_at), floats.shape), np.float64)
    return Matrix(block.labels, values, np.array(take_float), found)


def mixed_changes(block: SeriesBlock, floats: Windows, cells: Windows, resets: bool, begins: Times | None) -> Matrix:
    """Counts changes or resets between neighbours; a change of type is one."""
    values = np.zeros(floats.shape)
    present = np.array(floats.filled | cells.filled)
    for row, step in np.argwhere(present):
        samples = samples_of(floats, cells, row, step)
        if begins is not None:
            before = [at for at, sample in enumerate(samples) if sample[0] <= begins[step]]
            if len(before) == len(samples):
                present[row, step] = False
                continue
            samples = samples[max(len(before) - 1, 0) :]
        pairs = pairwise(samples)
        values[row, step] = sum(differ(one, other, resets) for one, other in pairs)
    return Matrix(block.labels, values, present)


def differ(before: Sample, after: Sample, resets: bool) -> bool:
    one, other = before[1], after[1]
    if isinstance(one, Histogram) != isinstance(other, Histogram):
        return True
    if resets and start_resets(before, after):
        return True
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        return is_reset(other, one) if resets else not one.same(other)
    if resets:
        return bool(other < one)  # type: ignore[operator]
    return bool(one != other and not (one != one and other != other))


def start_resets(before: Sample, after: Sample) -> bool:
    window = histograms.Window((), (before[0], after[0]), (before[2], after[2]), 0, 0)
    return window.start_resets(1)


def mixed_instant(
    evaluation: Evaluation, node: Call, block: SeriesBlock, floats: Windows, cells: Windows, counter: bool
) -> Matrix:
    """Returns the growth between the last two samples, which must be of one type."""
    names = block.labels.get("__name__").strings()
    found = instant(floats, counter)
    values, present = found.values.copy(), found.present.copy()
    results = empty_cells(cells.shape)
    place = node.arguments[0]
    for row, step in np.argwhere(cells.filled):
        samples = samples_of(floats, cells, row, step)[-2:]
        present[row, step] = False
        if len(samples) < 2:
            continue
        kinds = [isinstance(sample[1], Histogram) for sample in samples]
        if all(kinds):
            window = histograms.Window(
                [sample[1] for sample in samples],  # type: ignore[misc]
                [sample[0] for sample in samples],
                [sample[2] for sample in samples],
                0,
                0,
            )
            notes = histograms.Notes(
                lambda text: evaluation.warn(text, place), lambda text: evaluation.info(text, place), names[row]
            )
            results[row, step] = histograms.instant(window, counter, notes)
        elif any(kinds):
            evaluation.warn(f'encountered a mix of histograms and floats for metric name "{names[row]}"', place)
        else:
            present[row, step] = found.present[row, step]
    return Matrix(block.labels, values, present, results)
