"""Computes functions over the native histograms of one window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from frazil.query.promql.histograms.histogram import Hint, Histogram
from frazil.query.promql.histograms.merge import (
    IncompatibleSchemas,
    Merged,
    add,
    add_all,
    average,
    merge_hints,
    reduce_schema,
    subtract,
)
from frazil.query.promql.histograms.resets import is_reset

MISMATCHED = "mismatched custom buckets were reconciled during"
CLASHING = "conflicting counter resets during histogram aggregation"


@dataclass(frozen=True)
class Notes:
    """Says what is odd about a series; the evaluator turns it into annotations with a position."""

    warn: Callable[[str], None]
    info: Callable[[str], None]
    metric: str

    def not_counter(self) -> None:
        self.warn(f'this native histogram metric is not a counter: "{self.metric}"')

    def not_gauge(self) -> None:
        self.warn(f'this native histogram metric is not a gauge: "{self.metric}"')

    def mixed_schemas(self) -> None:
        self.warn(
            "vector contains a mix of histograms with exponential and custom buckets schemas "
            f'for metric name "{self.metric}"'
        )

    def reconciled(self, merged: Merged, operation: str) -> Histogram:
        if merged.reconciled:
            self.info(f"{MISMATCHED} {operation}")
        return merged.histogram


@dataclass(frozen=True)
class Window:
    """Has the histograms of one window, with their times and start times (0 where not known)."""

    histograms: Sequence[Histogram]
    times: Sequence[int]
    starts: Sequence[int] | None
    begin: int
    end: int

    def start_resets(self, at: int) -> bool:
        """Whether the start time of a sample shows that its counter began anew after the one before."""
        if self.starts is None:
            return False
        start, before = self.starts[at], self.starts[at - 1]
        time, time_before = self.times[at], self.times[at - 1]
        if start in (before, 0) or start >= time or start < time_before:
            return False
        return start > time_before or (before not in (0, time_before) and before < time_before)

    def overlaps(self) -> bool:
        if self.starts is None:
            return False
        pairs = zip(self.starts, self.starts[1:], self.times, strict=False)
        return any(start != 0 and start < time and start != before for before, start, time in pairs)


def growth(window: Window, counter: bool, notes: Notes) -> Histogram | None:
    """Returns last minus first, with what was lost in resets between."""
    histograms = window.histograms
    first, last = histograms[0], histograms[-1]
    if counter and Hint.GAUGE in (first.hint, last.hint):
        notes.not_counter()
    custom = first.custom
    if counter and (window.start_resets(1) or is_reset(histograms[1], first)):
        first = Histogram(schema=histograms[1].schema, bounds=histograms[1].bounds)
        custom = first.custom
    if last.custom != custom:
        notes.mixed_schemas()
        return None
    schema = min(last.schema, first.schema)
    if counter:
        for histogram in histograms[1:-1]:
            if histogram.hint == Hint.GAUGE:
                notes.not_counter()
            if histogram.custom != custom:
                notes.mixed_schemas()
                return None
            schema = min(schema, histogram.schema)
    try:
        result = notes.reconciled(subtract(reduce_schema(last, schema), first), "subtraction")
        if counter:
            before = first
            for at in range(1, len(histograms)):
                if window.start_resets(at) or is_reset(histograms[at], before):
                    result = notes.reconciled(add(result, before), "addition")
                before = histograms[at]
        elif histograms[0].hint != Hint.GAUGE or last.hint != Hint.GAUGE:
            notes.not_gauge()
    except IncompatibleSchemas:
        notes.mixed_schemas()
        return None
    return result.with_hint(Hint.GAUGE).compact()


def extrapolated(window: Window, counter: bool, per_second: bool, notes: Notes) -> Histogram | None:
    """Returns the growth over a window, extended to its edges as Prometheus does."""
    histograms, times = window.histograms, window.times
    gaps = len(histograms) - 1
    result: Histogram | None = None
    if gaps:
        result = growth(window, counter, notes)
        if result is None:
            return None
    to_start, to_end = (times[0] - window.begin) / 1000, (window.end - times[-1]) / 1000
    sampled = (times[-1] - times[0]) / 1000
    average_gap = sampled / gaps if gaps else 0.0
    threshold = average_gap * 1.1
    began = window.starts[0] if window.starts is not None and counter else 0
    if began != 0 and window.begin < began < times[0]:
        to_start = 0.0
        sampled = (times[-1] - began) / 1000
        if result is None:
            result = histograms[0]
        else:
            try:
                result = notes.reconciled(add(result, histograms[0]), "addition")
            except IncompatibleSchemas:
                notes.mixed_schemas()
                return None
    elif not gaps or result is None:
        return None
    else:
        if to_start >= threshold:
            to_start = average_gap / 2
        if counter and result.count > 0 and histograms[0].count >= 0:
            to_start = min(to_start, sampled * (histograms[0].count / result.count))
    if to_end >= threshold:
        to_end = average_gap / 2
    factor = (sampled + to_start + to_end) / sampled if sampled else 1.0
    if per_second:
        factor /= (window.end - window.begin) / 1000
    return result.times(factor)


def instant(window: Window, counter: bool, notes: Notes) -> Histogram | None:
    """Returns the growth between the last two histograms, of counters for each second."""
    if len(window.histograms) < 2:
        return None
    before, last = window.histograms[-2:]
    elapsed = window.times[-1] - window.times[-2]
    if counter and Hint.GAUGE in (before.hint, last.hint):
        notes.not_counter()
    if not counter and (before.hint != Hint.GAUGE or last.hint != Hint.GAUGE):
        notes.not_gauge()
    result = last
    if not counter or not (window.start_resets(len(window.histograms) - 1) or is_reset(last, before)):
        try:
            result = notes.reconciled(subtract(last, before), "subtraction")
        except IncompatibleSchemas:
            notes.mixed_schemas()
            return None
    result = result.with_hint(Hint.GAUGE).compact()
    return result.divided(elapsed / 1000) if counter else result


def total(window: Window, notes: Notes, mean: bool = False) -> Histogram | None:
    """Returns the sum or the mean of the histograms."""
    try:
        merged = average(window.histograms) if mean else add_all(window.histograms)
    except IncompatibleSchemas:
        notes.mixed_schemas()
        return None
    if hints_clash(window.histograms):
        notes.warn(CLASHING)
    return notes.reconciled(merged, "aggregation").compact()


def hints_clash(histograms: Sequence[Histogram]) -> bool:
    hints = {histogram.hint for histogram in histograms}
    return Hint.RESET in hints and Hint.NOT_RESET in hints


def interpolate(
    before: Histogram, time_before: int, after: Histogram, time_after: int, at: int, counter: bool, notes: Notes
) -> Histogram:
    """Returns the histogram on the line between two samples; a counter that began anew starts at nothing."""
    if at == time_before:
        return before
    if at == time_after:
        return after
    share = (at - time_before) / (time_after - time_before)
    if counter and is_reset(after, before):
        return after.times(share)
    difference = subtract(after, before)
    if difference.reconciled:
        notes.info(f"{MISMATCHED} subtraction")
    summed = add(difference.histogram.times(share), before)
    # What is known of resets stays what it is for the later sample.
    hint, _ = merge_hints(after.hint, before.hint)
    return notes.reconciled(summed, "addition").with_hint(hint)


def extended(
    window: Window, range_ms: int, smoothed: bool, counter: bool, per_second: bool, notes: Notes
) -> Histogram | None:
    """Returns the growth between the edges of an anchored or smoothed range."""
    histograms, times = window.histograms, window.times
    begin, end = window.end - range_ms, window.end
    last = len(histograms) - 1
    first = max(0, first_where(times[:last], lambda t: t > begin) - 1)
    if smoothed:
        last = first_where(times[:last], lambda t: t >= end)
    if times[last] <= begin or (smoothed and times[first] > end):
        return None
    custom = histograms[first].custom
    for histogram in histograms[first : last + 1]:
        if histogram.custom != custom:
            notes.mixed_schemas()
            return None
        if counter and histogram.hint == Hint.GAUGE:
            notes.not_counter()
    left, right = histograms[first], histograms[last]
    try:
        if smoothed and times[first] < begin:
            following = histograms[first + 1], times[first + 1]
            left = interpolate(left, times[first], *following, begin, counter, notes)
        if smoothed and last > 0 and times[last] > end:
            previous = histograms[last - 1], times[last - 1]
            right = interpolate(*previous, histograms[last], times[last], end, counter, notes)
        if not counter and (left.hint != Hint.GAUGE or right.hint != Hint.GAUGE):
            notes.not_gauge()
        result = notes.reconciled(subtract(right, left), "subtraction")
        if counter:
            correction = corrections(window, first, last, left, right, begin, smoothed, notes)
            if correction is not None:
                result = notes.reconciled(add(result, correction), "addition")
    except IncompatibleSchemas:
        notes.mixed_schemas()
        return None
    if per_second:
        result = result.divided(range_ms / 1000)
    return result.with_hint(Hint.GAUGE).compact()


def corrections(
    window: Window,
    first: int,
    last: int,
    left: Histogram,
    right: Histogram,
    begin: int,
    smoothed: bool,
    notes: Notes,
) -> Histogram | None:
    """Adds up what was lost in resets, from the left edge over the samples inside to the right edge."""
    histograms = window.histograms
    begins_at, before = first + 1, left
    if smoothed and window.times[first] < begin and is_reset(histograms[first + 1], histograms[first]):
        before, begins_at = histograms[first + 1], begins_at + 1
    if begins_at > last:
        return None
    lost: list[Histogram] = []
    for histogram in histograms[begins_at:last]:
        if is_reset(histogram, before):
            lost.append(before)
        before = histogram
    if is_reset(right, before):
        lost.append(before)
    result = lost[0] if lost else None
    for histogram in lost[1:]:
        assert result is not None
        result = notes.reconciled(add(result, histogram), "addition")
    return result


def first_where(times: Sequence[int], wanted: Callable[[int], bool]) -> int:
    return next((at for at, time in enumerate(times) if wanted(time)), len(times))
