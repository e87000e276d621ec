"""Tells of histograms what Prometheus says of counter resets when it reads them back.

It keeps histograms in chunks that begin at each reset, so all but the first of a chunk are known not to be one.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.query.promql.histograms.histogram import Hint, Histogram
from frazil.query.promql.histograms.resets import is_reset


def hinted(series: Sequence[Histogram]) -> list[Histogram]:
    """Returns the histograms of a series, by time, with their hints."""
    found: list[Histogram] = []
    before: Histogram | None = None
    for value in series:
        if value.hint == Hint.GAUGE:
            hint = Hint.GAUGE
        elif before is None or begins_chunk(before, value):
            hint = Hint.UNKNOWN
        else:
            hint = Hint.NOT_RESET
        before = value
        found.append(value.with_hint(hint))
    return found


def begins_chunk(before: Histogram, value: Histogram) -> bool:
    """Whether a histogram cannot be in the chunk of the one before it."""
    if before.hint == Hint.GAUGE or value.hint == Hint.RESET:
        return True
    same = (
        before.schema == value.schema
        and before.zero_threshold == value.zero_threshold
        and before.bounds == value.bounds
    )
    return not same or is_reset(value.with_hint(Hint.UNKNOWN), before)
