"""Counts what is stored of a remote write 2.0 request, which its sender compares with what it sent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.lists import offsets_of
from frazil.formats.telemetry.rows import TelemetryRows

_HEADER = "x-prometheus-remote-write-{}-written"


class WrittenCounts(NamedTuple):
    samples: int = 0
    histograms: int = 0
    exemplars: int = 0

    def headers(self) -> dict[str, str]:
        return {_HEADER.format(name): str(count) for name, count in zip(self._fields, self, strict=True)}


def written_counts(rows: TelemetryRows, requests: int) -> list[WrittenCounts]:
    """Counts the samples, histograms and exemplars in the rows of each request."""
    samples = rows.batch["value_double"].is_valid()
    histograms = pc.or_(*(rows.batch[name].is_valid() for name in ("count", "count_double")))
    exemplars = pa.array(np.diff(offsets_of(rows.batch["exemplars"])))
    counts = [
        np.bincount(rows.requests, np.asarray(each).astype(np.int64), requests).astype(int).tolist()
        for each in (samples, histograms, exemplars)
    ]
    return [WrittenCounts(*each) for each in zip(*counts, strict=True)]
